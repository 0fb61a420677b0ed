//! Which crates may be used, by whom, and under which licences, from `cargo metadata`.

use std::collections::{BTreeMap, BTreeSet};

use anyhow::{Context, Result};
use serde_json::Value;

use super::Fault;
use super::licence::is_allowed;
use crate::rust::WASM;
use crate::shell::{Workspace, output};

/// Crates that may not be anywhere, and what stands in the way.
const BANNED: &[(&str, &str)] = &[
    ("aws-lc-rs", "needs a C toolchain and cmake; rustls has ring"),
    ("aws-lc-sys", "needs a C toolchain and cmake; rustls has ring"),
    ("bincode", "unmaintained"),
    ("chrono", "dates are jiff's"),
    ("failure", "unmaintained"),
    ("native-tls", "ties the binary to the system's OpenSSL"),
    ("openssl", "ties the binary to the system's OpenSSL"),
    ("openssl-sys", "ties the binary to the system's OpenSSL"),
    ("serde-pickle", "cannot read PyTorch's snapshots"),
    ("serde_yaml", "unmaintained"),
];

/// All that the pure crate may depend on.
const SIMULATOR_MAY_USE: [&str; 4] = ["serde", "serde_json", "toml", "libm"];

/// What it may offer behind a feature that only others turn on.
const SIMULATOR_MAY_OFFER: [&str; 2] = ["borsh", "utoipa"];

/// Ours that are programs: nobody builds on them.
const NOT_LIBRARIES: [&str; 4] = ["app", "server", "agent", "xtask"];

/// What must not come along, however far away: (ours, target, crate, why).
const UNREACHABLE: &[(&str, Target, &str, &str)] = &[
    ("app", Target::Wasm, "tokio", "a browser has its own event loop"),
    ("app", Target::Wasm, "sqlx", "the page has no database"),
    ("app", Target::Wasm, "rayon", "the page has workers, not threads"),
    ("server", Target::Host, "leptos", "the server renders nothing"),
    ("server", Target::Host, "web-sys", "the server is no page"),
    ("xtask", Target::Host, "simulator", "a chore must not wait for the simulator to compile"),
];

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Target {
    Host,
    Wasm,
}

pub(super) fn check(workspace: &Workspace) -> Result<Vec<Fault>> {
    let host_version = output(workspace.command("rustc").arg("-vV"))?;
    let host = host_version.lines().find_map(|line| line.strip_prefix("host: "));
    let host = Graph::load(workspace, host.context("rustc names no host")?)?;
    let wasm = Graph::load(workspace, WASM)?;
    let mut faults = host.packages_faults();
    faults.extend(wasm.packages_faults());
    faults.extend(host.ours_faults());
    for (from, target, to, why) in UNREACHABLE {
        let graph = if *target == Target::Host { &host } else { &wasm };
        if graph.reaches(from, to) {
            faults.push(Fault::new(*from, format!("must not reach `{to}`: {why}")));
        }
    }
    faults.sort_by(|a, b| (&a.place, &a.what).cmp(&(&b.place, &b.what)));
    faults.dedup();
    Ok(faults)
}

/// One package as Cargo describes it.
#[derive(Debug)]
struct Package {
    name: String,
    licence: Option<String>,
    is_ours: bool,
    /// Ids of direct dependencies, without those for tests and build scripts alone.
    uses: Vec<String>,
    /// Names of the same that are only there with a feature.
    optional: BTreeSet<String>,
}

/// The packages of one target, and who reaches whom.
#[derive(Debug)]
struct Graph {
    packages: BTreeMap<String, Package>,
}

impl Graph {
    /// Only one target's packages are asked for: those of all would be downloaded otherwise.
    fn load(workspace: &Workspace, target: &str) -> Result<Self> {
        let args = ["metadata", "--format-version=1", "--locked", "--filter-platform", target];
        let text = output(&mut workspace.cargo(&args))?;
        let json: Value = serde_json::from_str(&text).context("cargo metadata is no JSON")?;
        let members = array(&json, "workspace_members");
        let ours: BTreeSet<&str> = members.filter_map(Value::as_str).collect();
        let mut packages = BTreeMap::new();
        for package in array(&json, "packages") {
            let id = text_of(package, "id");
            let described = Package {
                name: text_of(package, "name").to_owned(),
                licence: package["license"].as_str().map(str::to_owned),
                is_ours: ours.contains(id),
                uses: Vec::new(),
                optional: array(package, "dependencies")
                    .filter(|dep| dep["optional"] == true)
                    .map(|dep| text_of(dep, "name").to_owned())
                    .collect(),
            };
            packages.insert(id.to_owned(), described);
        }
        for node in array(&json["resolve"], "nodes") {
            if let Some(package) = packages.get_mut(text_of(node, "id")) {
                let used = array(node, "deps").filter(|dep| is_normal(dep));
                package.uses = used.map(|dep| text_of(dep, "pkg").to_owned()).collect();
            }
        }
        Ok(Self { packages })
    }

    fn packages_faults(&self) -> Vec<Fault> {
        let mut faults = Vec::new();
        for package in self.packages.values() {
            if let Some((_, why)) = BANNED.iter().find(|(name, _)| *name == package.name) {
                let users = self.users(&package.name).join(", ");
                faults.push(Fault::new(&package.name, format!("banned: {why} (used by {users})")));
            }
            let licence = package.licence.as_deref().unwrap_or("none");
            if !is_allowed(licence) {
                faults.push(Fault::new(&package.name, format!("licence not allowed: {licence}")));
            }
        }
        faults
    }

    /// The direct dependencies of our own crates.
    fn ours_faults(&self) -> Vec<Fault> {
        let mut faults = Vec::new();
        for package in self.packages.values().filter(|p| p.is_ours) {
            for used in self.used_by(package) {
                let name = used.name.as_str();
                if used.is_ours && NOT_LIBRARIES.contains(&name) {
                    faults.push(Fault::new(&package.name, format!("must not build on `{name}`")));
                }
                let offered =
                    SIMULATOR_MAY_OFFER.contains(&name) && package.optional.contains(name);
                let allowed = offered || SIMULATOR_MAY_USE.contains(&name);
                if package.name == "simulator" && !allowed {
                    faults.push(Fault::new("simulator", format!("must not use `{name}`")));
                }
            }
        }
        faults
    }

    fn used_by<'a>(&'a self, package: &'a Package) -> impl Iterator<Item = &'a Package> {
        package.uses.iter().filter_map(|id| self.packages.get(id))
    }

    fn users(&self, name: &str) -> Vec<&str> {
        let uses = |p: &&Package| self.used_by(p).any(|used| used.name == name);
        self.packages.values().filter(uses).map(|p| p.name.as_str()).collect()
    }

    fn reaches(&self, from: &str, to: &str) -> bool {
        let mut open: Vec<&Package> =
            self.packages.values().filter(|p| p.is_ours && p.name == from).collect();
        let mut seen = BTreeSet::new();
        while let Some(package) = open.pop() {
            if package.name == to {
                return true;
            }
            if seen.insert(&package.name) {
                open.extend(self.used_by(package));
            }
        }
        false
    }
}

fn array<'a>(value: &'a Value, key: &str) -> impl Iterator<Item = &'a Value> {
    value[key].as_array().into_iter().flatten()
}

fn text_of<'a>(value: &'a Value, key: &str) -> &'a str {
    value[key].as_str().unwrap_or_default()
}

/// Used by the code itself, not by its tests or its build script alone.
fn is_normal(dep: &Value) -> bool {
    array(dep, "dep_kinds").any(|kind| kind["kind"].is_null())
}
