//! What a person may do who logs in through an identity provider: groups of the provider are mapped to roles.

use std::collections::BTreeMap;
use std::str::FromStr;

use crate::ids::Tenant;
use crate::wire::Role;

/// A role that a group gives.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum GroupRole {
    Admin,
    Operator,
    Tenant(Tenant),
}

/// A text that names no role a person can have.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` must be `admin`, `operator` or `tenant:NAME`")]
pub struct BadGroupRole(String);

impl FromStr for GroupRole {
    type Err = BadGroupRole;

    fn from_str(text: &str) -> Result<Self, BadGroupRole> {
        let bad = || BadGroupRole(text.into());
        match text {
            "admin" => Ok(Self::Admin),
            "operator" => Ok(Self::Operator),
            _ => text.strip_prefix("tenant:").and_then(|name| name.parse().ok()).map(Self::Tenant).ok_or_else(bad),
        }
    }
}

impl GroupRole {
    pub fn role(&self) -> Role {
        match self {
            Self::Admin => Role::Admin,
            Self::Operator => Role::Operator,
            Self::Tenant(_) => Role::Tenant,
        }
    }

    /// None: all tenants.
    pub fn tenant(&self) -> Option<&Tenant> {
        match self {
            Self::Admin | Self::Operator => None,
            Self::Tenant(tenant) => Some(tenant),
        }
    }
}

/// Why a person's groups give no role.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NoGroupRole {
    NoGroup,
    /// A session shows one tenant.
    SeveralTenants,
}

/// Roles by the name of the group.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct GroupRoles(BTreeMap<String, GroupRole>);

impl GroupRoles {
    pub fn new(groups: BTreeMap<String, GroupRole>) -> Self {
        Self(groups)
    }

    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The role of somebody in these groups. The most powerful one counts.
    pub fn role_of<'a>(&self, groups: impl IntoIterator<Item = &'a str>) -> Result<GroupRole, NoGroupRole> {
        let mut found: Option<&GroupRole> = None;
        let mut tenants_differ = false;
        for role in groups.into_iter().filter_map(|group| self.0.get(group)) {
            match (found, role) {
                (_, GroupRole::Admin) | (None, _) => found = Some(role),
                (Some(GroupRole::Tenant(_)), GroupRole::Operator) => found = Some(role),
                (Some(GroupRole::Tenant(one)), GroupRole::Tenant(other)) => tenants_differ |= one != other,
                (Some(GroupRole::Admin | GroupRole::Operator), GroupRole::Operator | GroupRole::Tenant(_)) => {}
            }
        }
        match found {
            None => Err(NoGroupRole::NoGroup),
            Some(GroupRole::Tenant(_)) if tenants_differ => Err(NoGroupRole::SeveralTenants),
            Some(role) => Ok(role.clone()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn acme() -> GroupRole {
        GroupRole::Tenant("acme".parse().unwrap())
    }

    #[test]
    fn a_role_is_written_as_in_the_configuration() {
        assert_eq!("admin".parse(), Ok(GroupRole::Admin));
        assert_eq!("operator".parse(), Ok(GroupRole::Operator));
        assert_eq!("tenant:acme".parse(), Ok(acme()));
        for bad in ["", "worker", "tenant", "tenant:", "tenant:a b", "Operator", "operator:acme"] {
            assert_eq!(bad.parse::<GroupRole>(), Err(BadGroupRole(bad.into())));
        }
    }

    #[test]
    fn the_most_powerful_group_counts_in_any_order() {
        let groups = [
            ("root", GroupRole::Admin),
            ("sre", GroupRole::Operator),
            ("support-acme", acme()),
            ("sales-acme", acme()),
            ("support-globex", GroupRole::Tenant("globex".parse().unwrap())),
        ];
        let roles = GroupRoles::new(groups.into_iter().map(|(name, role)| (name.to_owned(), role)).collect());
        for (groups, role) in [
            (&["sre"][..], Ok(GroupRole::Operator)),
            (&["support-acme", "sales-acme", "staff"], Ok(acme())),
            (&["support-acme", "sre", "support-globex"], Ok(GroupRole::Operator)),
            (&["sre", "root", "support-acme"], Ok(GroupRole::Admin)),
            (&["root", "sre"], Ok(GroupRole::Admin)),
            (&["support-acme", "support-globex"], Err(NoGroupRole::SeveralTenants)),
            (&["staff", "SRE"], Err(NoGroupRole::NoGroup)),
            (&[], Err(NoGroupRole::NoGroup)),
        ] {
            assert_eq!(roles.role_of(groups.iter().copied()), role, "{groups:?}");
            assert_eq!(roles.role_of(groups.iter().rev().copied()), role, "{groups:?} reversed");
        }
    }
}
