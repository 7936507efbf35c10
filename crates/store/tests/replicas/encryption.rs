//! Encryption to the database: whoever names a root gets its server or none.

use std::path::{Path, PathBuf};
use std::process::Command;

use private_postgres::Server;
use redrive_engine::Store as _;
use redrive_store::postgres::PgStore;

use crate::opening::options;

/// The name that the server's certificate is for; it also answers at an address that is not in there.
const NAME: &str = "localhost";
const KEY: [&str; 5] = ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes"];

fn openssl(folder: &Path, args: &[&str]) {
    let made = Command::new("openssl").args(args).current_dir(folder).output().unwrap();
    assert!(made.status.success(), "openssl {args:?}: {}", String::from_utf8_lossy(&made.stderr));
}

/// A root that signs for others; gives its certificate.
fn root(folder: &Path, name: &str) -> PathBuf {
    let (key, cert, subject) = (format!("{name}.key"), format!("{name}.pem"), format!("/CN={name}"));
    let words = ["req", "-x509", "-days", "2", "-subj", &subject, "-keyout", &key, "-out", &cert];
    openssl(folder, &[&words[..], &KEY].concat());
    folder.join(cert)
}

/// A certificate for [`NAME`], signed by a root.
fn signed(folder: &Path, root: &str) -> (PathBuf, PathBuf) {
    openssl(
        folder,
        &[&["req", "-subj", "/CN=x", "-keyout", "server.key", "-out", "server.csr", "-new"][..], &KEY].concat(),
    );
    std::fs::write(folder.join("names"), format!("subjectAltName=DNS:{NAME}\n")).unwrap();
    let (cert, key) = (format!("{root}.pem"), format!("{root}.key"));
    let sign = ["x509", "-req", "-days", "2", "-in", "server.csr", "-extfile", "names", "-out", "server.pem"];
    openssl(folder, &[&sign[..], &["-CA", &cert, "-CAkey", &key, "-CAcreateserial"]].concat());
    (folder.join("server.pem"), folder.join("server.key"))
}

/// How the connections of a store that was opened so are encrypted; or why it was not.
async fn opened(server: &Server, host: &str, query: &str) -> Result<String, String> {
    let url = format!("{}?{query}", server.url().replace("127.0.0.1", host));
    let store = PgStore::open(options(&url)).await.map_err(|error| error.to_string())?;
    store.ready().await.unwrap();
    let sql = "SELECT string_agg(DISTINCT ssl::text, ' ') FROM pg_stat_ssl JOIN pg_stat_activity USING (pid)
         WHERE application_name = 'redrive'";
    let seen = private_postgres::sql(server.url(), sql).unwrap();
    store.close().await;
    Ok(seen)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_named_root_trusts_only_its_server_and_name() {
    let folder = tempfile::tempdir().unwrap();
    let (ours, others) = (root(folder.path(), "ours"), root(folder.path(), "others"));
    let (cert, key) = signed(folder.path(), "ours");
    let server = Server::start().unwrap();
    let full = |root: &Path| format!("sslmode=verify-full&sslrootcert={}", root.display());
    let said = opened(&server, NAME, &full(&ours)).await.unwrap_err();
    assert!(said.contains("does not support TLS"), "a server without encryption: {said}");
    assert_eq!(opened(&server, NAME, "sslmode=prefer").await, Ok("false".into()));

    server.encrypt(&cert, &key).unwrap();
    assert_eq!(opened(&server, NAME, &full(&ours)).await, Ok("true".into()));
    let said = opened(&server, "127.0.0.1", &full(&ours)).await.unwrap_err();
    assert!(said.contains("certificate not valid for name"), "another name: {said}");
    let said = opened(&server, NAME, &full(&others)).await.unwrap_err();
    assert!(said.contains("invalid peer certificate"), "another root: {said}");
    let said = opened(&server, NAME, "sslmode=verify-full").await.unwrap_err();
    assert!(said.contains("invalid peer certificate"), "the system's roots: {said}");
    // Nobody reads along, but who answers is not asked.
    assert_eq!(opened(&server, "127.0.0.1", "sslmode=require").await, Ok("true".into()));
    assert_eq!(opened(&server, "127.0.0.1", "sslmode=prefer").await, Ok("true".into()));
    assert_eq!(opened(&server, "127.0.0.1", "sslmode=disable").await, Ok("false".into()));
}
