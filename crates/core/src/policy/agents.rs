//! Which agents can do which kinds of task.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use crate::text::Label;

/// Stands for every task type.
const ANY: &str = "*";

/// The capability map, the same for all queues and tenants. Cheap to clone.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Agents(Arc<BTreeMap<Label, BTreeSet<Label>>>);

impl Agents {
    pub fn new(can: BTreeMap<Label, BTreeSet<Label>>) -> Self {
        Self(Arc::new(can))
    }

    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Those that can do it, by name.
    pub fn able(&self, task_type: Option<&Label>) -> impl Iterator<Item = &Label> {
        let any = Label::from(ANY);
        let able = move |can: &BTreeSet<Label>| can.contains(&any) || task_type.is_some_and(|task| can.contains(task));
        self.0.iter().filter(move |(_, can)| able(can)).map(|(name, _)| name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_agent_can_do_what_it_names_and_a_star_is_everything() {
        let can = |words: &[&str]| words.iter().map(|word| Label::from(*word)).collect();
        let agents = Agents::new(BTreeMap::from([
            (Label::from("biller"), can(&["invoice"])),
            (Label::from("poet"), can(&["poem"])),
            (Label::from("senior"), can(&["*"])),
        ]));
        let able = |task: Option<&str>| {
            let task = task.map(Label::from);
            agents.able(task.as_ref()).map(Label::to_string).collect::<Vec<_>>().join(" ")
        };
        assert_eq!(able(Some("invoice")), "biller senior");
        assert_eq!(able(Some("unheard")), "senior");
        assert_eq!(able(None), "senior");
    }
}
