//! `cargo xtask names`: lists type names that product code defines more than once. One name should mean one thing in
//! the whole workspace. `--most N` fails if there are more than N.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Context, Result, bail};
use syn::visit::{self, Visit};

use crate::workspace;

/// Each crate may have one of these: its own error type and its alias of `Result`.
const ONE_PER_CRATE: [&str; 2] = ["Error", "Result"];
/// Each command of the binary may have these: the module names the command, as in `doctor::Args`.
const ONE_PER_COMMAND: [&str; 2] = ["Args", "Command"];
const BINARY: &str = "redrive";

#[derive(Debug, Clone, PartialEq, Eq)]
struct Definition {
    name: String,
    krate: String,
    /// `file:line`, from the workspace's root.
    place: String,
}

impl Definition {
    /// Where the name may be defined once: the crate, the command's file, or the whole workspace.
    fn scope(&self) -> &str {
        if ONE_PER_CRATE.contains(&self.name.as_str()) {
            &self.krate
        } else if self.krate == BINARY && ONE_PER_COMMAND.contains(&self.name.as_str()) {
            self.place.rsplit_once(':').map_or("", |(file, _)| file)
        } else {
            ""
        }
    }
}

pub(crate) fn run(args: &[&str]) -> Result<ExitCode> {
    let most: usize = match args {
        [] => usize::MAX,
        ["--most", most] => most.parse().context("--most takes a number")?,
        _ => bail!("cargo xtask names [--most N]"),
    };
    let root = workspace::root()?;
    let mut crates: Vec<PathBuf> =
        fs::read_dir(root.join("crates"))?.map(|entry| Ok(entry?.path())).collect::<Result<_>>()?;
    crates.sort();
    let mut definitions = Vec::new();
    for krate in crates {
        for entry in ["src/lib.rs", "src/main.rs"] {
            if krate.join(entry).exists() {
                read_module(&root, &krate, &krate.join(entry), &mut definitions)?;
            }
        }
    }
    let types = definitions.len();
    let duplicates = duplicates(definitions);
    for (name, places) in &duplicates {
        println!("{name}");
        places.iter().for_each(|place| println!("  {place}"));
    }
    println!("{types} types, {} names defined more than once", duplicates.len());
    Ok(if duplicates.len() <= most { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// Follows `mod` declarations from a file, so that test modules in files of their own are left out.
fn read_module(root: &Path, krate: &Path, file: &Path, definitions: &mut Vec<Definition>) -> Result<()> {
    let text = fs::read_to_string(file).with_context(|| file.display().to_string())?;
    let parsed = syn::parse_file(&text).with_context(|| file.display().to_string())?;
    let mut types = Types::default();
    types.visit_file(&parsed);
    let krate_name = krate.file_name().unwrap_or_default().to_string_lossy();
    let shown = file.strip_prefix(root).unwrap_or(file).display();
    definitions.extend(types.definitions.into_iter().map(|(name, line)| Definition {
        name,
        krate: krate_name.clone().into_owned(),
        place: format!("{shown}:{line}"),
    }));
    let stem = file.file_stem().unwrap_or_default().to_string_lossy();
    let folder = file.parent().context("a source file has a folder")?;
    let folder = match stem.as_ref() {
        "lib" | "main" | "mod" => folder.to_owned(),
        stem => folder.join(stem),
    };
    for module in types.modules {
        let candidates = [folder.join(format!("{module}.rs")), folder.join(&module).join("mod.rs")];
        let path = candidates.iter().find(|path| path.exists());
        let path = path.with_context(|| format!("{shown}: no file for `mod {module}`"))?;
        read_module(root, krate, path, definitions)?;
    }
    Ok(())
}

#[derive(Default)]
struct Types {
    definitions: Vec<(String, usize)>,
    /// Declared without a body: they have files of their own.
    modules: Vec<String>,
}

impl Types {
    fn add(&mut self, name: &syn::Ident) {
        self.definitions.push((name.to_string(), name.span().start().line));
    }
}

impl<'ast> Visit<'ast> for Types {
    fn visit_item_mod(&mut self, item: &'ast syn::ItemMod) {
        if item.attrs.iter().any(is_cfg_test) {
            return;
        }
        if item.content.is_none() {
            self.modules.push(item.ident.to_string());
        }
        visit::visit_item_mod(self, item);
    }

    fn visit_item_struct(&mut self, item: &'ast syn::ItemStruct) {
        self.add(&item.ident);
    }

    fn visit_item_enum(&mut self, item: &'ast syn::ItemEnum) {
        self.add(&item.ident);
    }

    fn visit_item_trait(&mut self, item: &'ast syn::ItemTrait) {
        self.add(&item.ident);
        visit::visit_item_trait(self, item);
    }

    fn visit_item_type(&mut self, item: &'ast syn::ItemType) {
        self.add(&item.ident);
    }
}

fn is_cfg_test(attribute: &syn::Attribute) -> bool {
    let syn::Meta::List(list) = &attribute.meta else { return false };
    list.path.is_ident("cfg") && list.tokens.to_string() == "test"
}

fn duplicates(definitions: Vec<Definition>) -> BTreeMap<String, Vec<String>> {
    let mut places: BTreeMap<String, Vec<String>> = BTreeMap::new();
    let mut groups: BTreeMap<(String, String), Vec<String>> = BTreeMap::new();
    for definition in definitions {
        let scope = definition.scope().to_owned();
        groups.entry((definition.name, scope)).or_default().push(definition.place);
    }
    for ((name, _), group) in groups {
        if group.len() > 1 {
            places.entry(name).or_default().extend(group);
        }
    }
    places
}

#[cfg(test)]
mod tests {
    use super::*;

    fn types(source: &str) -> Types {
        let mut types = Types::default();
        types.visit_file(&syn::parse_file(source).unwrap());
        types
    }

    #[test]
    fn every_kind_of_type_is_found_outside_of_tests() {
        let types = types(
            "struct A; enum B { C } pub trait D { type E; } type F = A; mod inner { struct G; } mod file;
             fn f() { struct H; } #[cfg(test)] mod tests { struct I; } #[cfg(test)] mod more_tests;",
        );
        let names: Vec<&str> = types.definitions.iter().map(|(name, _)| name.as_str()).collect();
        assert_eq!(names, ["A", "B", "D", "F", "G", "H"]);
        assert_eq!(types.modules, ["file"]);
    }

    #[test]
    fn a_name_in_two_places_is_a_duplicate() {
        let define = |name: &str, krate: &str, place: &str| Definition {
            name: name.into(),
            krate: krate.into(),
            place: place.into(),
        };
        let found = duplicates(vec![
            define("Page", "server", "a.rs:1"),
            define("Page", "client", "b.rs:2"),
            define("Run", "core", "c.rs:3"),
            define("Error", "core", "d.rs:4"),
            define("Error", "store", "e.rs:5"),
            define("Result", "store", "f.rs:6"),
            define("Result", "store", "g.rs:7"),
            define("Args", "redrive", "h.rs:8"),
            define("Args", "redrive", "i.rs:9"),
            define("Command", "redrive", "h.rs:10"),
            define("Command", "store", "j.rs:11"),
        ]);
        let expected = BTreeMap::from([
            ("Page".to_owned(), vec!["a.rs:1".to_owned(), "b.rs:2".to_owned()]),
            ("Result".to_owned(), vec!["f.rs:6".to_owned(), "g.rs:7".to_owned()]),
        ]);
        assert_eq!(found, expected);
    }
}
