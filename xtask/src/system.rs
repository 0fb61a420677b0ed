//! What the tests need from the operating system, and how it gets there.

use std::env;
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Result, bail};

use crate::node;
use crate::shell::{Workspace, output, run, which};

/// One thing a stage needs that Cargo cannot bring.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Need {
    /// Node and npm.
    Node,
    /// A Chromium to drive.
    Chromium,
    /// `initdb` and `postgres`: a test starts its own cluster.
    Postgres,
    /// Glyphs for the screenshots in Chinese.
    ChineseFonts,
}

impl Need {
    /// Debian's packages that bring it.
    fn packages(self) -> &'static [&'static str] {
        match self {
            // Only what is missing: another vendor's Node brings its own npm.
            Self::Node if which(&["node"]).is_some() => &["npm"],
            Self::Node => &["nodejs", "npm"],
            Self::Chromium => &["chromium"],
            Self::Postgres => &["postgresql"],
            Self::ChineseFonts => &["fonts-noto-cjk"],
        }
    }

    fn is_there(self, workspace: &Workspace) -> bool {
        match self {
            Self::Node => node::ensure(workspace).is_ok(),
            Self::Chromium => chromium().is_some(),
            Self::Postgres => postgres_bin().is_some(),
            Self::ChineseFonts => chinese_font(workspace),
        }
    }
}

/// The browser of the tests: `CHROMIUM`, or the first on the search path.
pub fn chromium() -> Option<PathBuf> {
    match env::var_os("CHROMIUM") {
        Some(path) => Some(PathBuf::from(path)).filter(|p| p.is_file()),
        None => which(&["chromium", "chromium-browser", "google-chrome"]),
    }
}

/// The folder with `initdb` and `postgres`; Debian keeps them off the search path.
pub fn postgres_bin() -> Option<PathBuf> {
    let has_both = |dir: &Path| dir.join("initdb").is_file() && dir.join("postgres").is_file();
    let on_path = which(&["initdb"]).and_then(|p| p.parent().map(Path::to_path_buf));
    let debian = fs::read_dir("/usr/lib/postgresql").into_iter().flatten().flatten();
    let mut folders: Vec<PathBuf> = debian.map(|entry| entry.path().join("bin")).collect();
    folders.sort();
    on_path.into_iter().chain(folders.into_iter().rev()).find(|dir| has_both(dir))
}

fn chinese_font(workspace: &Workspace) -> bool {
    output(workspace.command("fc-list").args([":lang=zh", "family"]))
        .is_ok_and(|families| !families.trim().is_empty())
}

/// Sees to it that every need is met: installs on Debian when root, else says what to install.
///
/// # Errors
/// When something is missing and cannot be installed; the message is one line.
pub fn ensure(workspace: &Workspace, needs: &[Need]) -> Result<()> {
    let missing = |needs: &[Need]| -> Vec<&'static str> {
        let open = needs.iter().filter(|need| !need.is_there(workspace));
        open.flat_map(|need| need.packages()).copied().collect()
    };
    let packages = missing(needs);
    if packages.is_empty() {
        return Ok(());
    }
    let list = packages.join(" ");
    if !can_install(workspace) {
        bail!("missing: {list} (on Debian: sudo apt-get install -y {list})");
    }
    eprintln!("· installing {list}");
    let apt = |args: &[&str]| {
        let mut command = workspace.command("apt-get");
        run(command.env("DEBIAN_FRONTEND", "noninteractive").arg("-qq").args(args))
    };
    apt(&["update"])?;
    let mut install = vec!["install", "-y", "--no-install-recommends"];
    install.extend(&packages);
    apt(&install)?;
    let still = missing(needs);
    if !still.is_empty() {
        bail!("still missing after the installation: {}", still.join(" "));
    }
    Ok(())
}

fn can_install(workspace: &Workspace) -> bool {
    let root = output(workspace.command("id").arg("-u")).is_ok_and(|id| id.trim() == "0");
    root && Path::new("/etc/debian_version").is_file() && which(&["apt-get"]).is_some()
}
