//! A PostgreSQL of our own: a fresh cluster on a free loopback port, gone when dropped.

use std::os::unix::fs::{MetadataExt, chown};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use sqlx::{Connection, Executor, PgConnection};
use tempfile::TempDir;

const HINT: &str = "PostgreSQL's server is not installed: apt-get install postgresql";
const START: Duration = Duration::from_mins(1);
const STOP: Duration = Duration::from_secs(20);

pub(crate) struct Cluster {
    process: Child,
    port: u16,
    folder: TempDir,
}

impl Cluster {
    pub(crate) async fn start() -> Self {
        let binaries = binaries().expect(HINT);
        let folder = TempDir::new().unwrap();
        let user = user();
        if let Some((uid, gid)) = user {
            chown(folder.path(), Some(uid), Some(gid)).unwrap();
        }
        let data = folder.path().join("data");
        let made = command(&binaries.join("initdb"), folder.path(), user)
            .args(["--auth=trust", "--username=tidemark", "--no-sync", "--encoding=UTF8"])
            .args(["--locale=C", "--pgdata"])
            .arg(&data)
            .output()
            .unwrap();
        assert!(made.status.success(), "initdb: {}", String::from_utf8_lossy(&made.stderr));
        let port = free_port();
        let process = command(&binaries.join("postgres"), folder.path(), user)
            .arg("-D")
            .arg(&data)
            .args(["-h", "127.0.0.1", "-p", &port.to_string(), "-k", "", "-F"])
            .stderr(std::fs::File::create(folder.path().join("log")).unwrap())
            .spawn()
            .unwrap();
        let mut cluster = Self { process, port, folder };
        cluster.wait_until_ready().await;
        cluster
    }

    async fn wait_until_ready(&mut self) {
        let started = Instant::now();
        while PgConnection::connect(&self.url("postgres")).await.is_err() {
            assert!(self.process.try_wait().unwrap().is_none(), "PostgreSQL ended: {}", self.log());
            assert!(started.elapsed() < START, "PostgreSQL does not answer: {}", self.log());
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    }

    /// A new database, by its address.
    pub(crate) async fn database(&self, number: u32) -> String {
        let name = format!("case{number}");
        let mut connection = PgConnection::connect(&self.url("postgres")).await.unwrap();
        let create = sqlx::AssertSqlSafe(format!("create database {name}"));
        connection.execute(create).await.unwrap();
        self.url(&name)
    }

    fn url(&self, database: &str) -> String {
        format!("postgres://tidemark@127.0.0.1:{}/{database}", self.port)
    }

    fn log(&self) -> String {
        std::fs::read_to_string(self.folder.path().join("log")).unwrap_or_default()
    }
}

impl Drop for Cluster {
    fn drop(&mut self) {
        // An interrupt is PostgreSQL's fast shutdown; a kill would leave shared memory behind.
        let asked = Command::new("kill").args(["-INT", &self.process.id().to_string()]).status();
        let begun = Instant::now();
        while asked.is_ok() && begun.elapsed() < STOP {
            if let Ok(Some(_)) = self.process.try_wait() {
                return;
            }
            std::thread::sleep(Duration::from_millis(20));
        }
        drop(self.process.kill());
        drop(self.process.wait());
    }
}

/// The newest version's folder of programs.
fn binaries() -> Option<PathBuf> {
    let versions = std::fs::read_dir("/usr/lib/postgresql").ok()?;
    let folders = versions.filter_map(|entry| Some(entry.ok()?.path().join("bin")));
    let usable = folders.filter(|bin| bin.join("initdb").exists() && bin.join("postgres").exists());
    usable.max_by_key(|bin| version(bin))
}

fn version(bin: &Path) -> u32 {
    let name = bin.parent().and_then(Path::file_name).and_then(|name| name.to_str());
    name.and_then(|name| name.parse().ok()).unwrap_or(0)
}

/// PostgreSQL refuses to run as root: then its own user, or `nobody`.
fn user() -> Option<(u32, u32)> {
    if std::fs::metadata("/proc/self").unwrap().uid() != 0 {
        return None;
    }
    let users = std::fs::read_to_string("/etc/passwd").unwrap();
    let ids = |name: &str| {
        let line = users.lines().find(|line| line.split(':').next() == Some(name))?;
        let mut fields = line.split(':').skip(2);
        Some((fields.next()?.parse().ok()?, fields.next()?.parse().ok()?))
    };
    Some(ids("postgres").or_else(|| ids("nobody")).expect("a user who is not root"))
}

fn command(program: &Path, folder: &Path, user: Option<(u32, u32)>) -> Command {
    let mut command = Command::new(program);
    command.current_dir(folder).env("LC_ALL", "C");
    command.stdin(Stdio::null()).stdout(Stdio::null());
    if let Some((uid, gid)) = user {
        command.uid(uid).gid(gid);
    }
    command
}

fn free_port() -> u16 {
    std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port()
}
