//! Between clients and server: connections that are cut in the middle of a word, and words that take their time.

use std::io::{self, Read as _, Write as _};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::Builder;
use std::time::Duration;

use anyhow::Result;

use crate::chance::Chance;

/// So many connections in a thousand come to a bad end.
const CUT_PER_MILLE: u64 = 60;
const SLOW_PER_MILLE: u64 = 30;

pub(crate) struct Proxy {
    address: String,
    open: Arc<Mutex<Vec<TcpStream>>>,
    cut: Arc<AtomicU64>,
}

/// What is to happen to one direction of a connection.
#[derive(Clone, Copy)]
struct Fate {
    /// After so many bytes.
    cut_at: Option<u64>,
    slow_ms: u64,
}

impl Fate {
    fn draw(chance: &Chance) -> Self {
        let cut_at = chance.happens(CUT_PER_MILLE).then(|| chance.below(6_000));
        let slow_ms = if chance.happens(SLOW_PER_MILLE) { chance.below(400) } else { 0 };
        Self { cut_at, slow_ms }
    }
}

impl Proxy {
    pub(crate) fn start(server: String, seed: u64) -> Result<Self> {
        let listener = TcpListener::bind("127.0.0.1:0")?;
        let address = listener.local_addr()?.to_string();
        let open = Arc::new(Mutex::new(Vec::new()));
        let cut = Arc::new(AtomicU64::new(0));
        let (streams, cuts) = (open.clone(), cut.clone());
        Builder::new().name("proxy".into()).spawn(move || {
            let chance = Chance::new(seed ^ 0x1234);
            for client in listener.incoming().flatten() {
                // A server that is away is away for the client too: its connection just ends.
                if let Ok(upstream) = TcpStream::connect(&server) {
                    let _ = join(client, upstream, &chance, &streams, &cuts);
                }
            }
        })?;
        Ok(Self { address, open, cut })
    }

    pub(crate) fn address(&self) -> &str {
        &self.address
    }

    /// Every connection there is.
    pub(crate) fn cut_all(&self) {
        for stream in self.open.lock().unwrap_or_else(PoisonError::into_inner).drain(..) {
            let _ = stream.shutdown(Shutdown::Both);
        }
    }

    pub(crate) fn cuts(&self) -> u64 {
        self.cut.load(Ordering::Relaxed)
    }
}

fn join(
    client: TcpStream,
    upstream: TcpStream,
    chance: &Chance,
    open: &Mutex<Vec<TcpStream>>,
    cuts: &Arc<AtomicU64>,
) -> io::Result<()> {
    client.set_nodelay(true)?;
    upstream.set_nodelay(true)?;
    {
        let mut open = open.lock().unwrap_or_else(PoisonError::into_inner);
        open.push(client.try_clone()?);
        // Those long gone need no cutting.
        let many = open.len();
        if many > 512 {
            open.drain(..many - 256);
        }
    }
    for (from, to) in [(client.try_clone()?, upstream.try_clone()?), (upstream, client)] {
        let (fate, cuts) = (Fate::draw(chance), cuts.clone());
        Builder::new().name("relay".into()).spawn(move || relay(from, to, fate, &cuts))?;
    }
    Ok(())
}

fn relay(mut from: TcpStream, mut to: TcpStream, fate: Fate, cuts: &AtomicU64) {
    let (mut bytes, mut passed) = ([0; 4_096], 0_u64);
    while let Ok(read) = from.read(&mut bytes) {
        if read == 0 {
            break;
        }
        std::thread::sleep(Duration::from_millis(fate.slow_ms));
        let left = fate.cut_at.map_or(u64::MAX, |at| at.saturating_sub(passed));
        let whole = left >= read as u64;
        let most = if whole { read } else { usize::try_from(left).unwrap_or(read) };
        if to.write_all(&bytes[..most]).is_err() {
            break;
        }
        passed += read as u64;
        if !whole {
            cuts.fetch_add(1, Ordering::Relaxed);
            break;
        }
    }
    let _ = from.shutdown(Shutdown::Both);
    let _ = to.shutdown(Shutdown::Both);
}
