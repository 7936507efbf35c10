//! A proxy between clients and server, and between server and database, that cuts and delays connections.

use std::io::{self, Read as _, Write as _};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::Builder;
use std::time::Duration;

use anyhow::Result;

use crate::chance::Chance;

/// How connections of a kind fare. Each direction of each of them has its own fate.
#[derive(Clone, Copy)]
pub(crate) struct FaultRates {
    /// So many in a thousand come to a bad end…
    cut_per_mille: u64,
    /// …before so many bytes have passed.
    cut_within_bytes: u64,
    slow_per_mille: u64,
    slow_within_ms: u64,
}

/// Between clients and server: short lives, cut in the middle of a request or an answer.
pub(crate) const CLIENT_CONNECTIONS: FaultRates =
    FaultRates { cut_per_mille: 60, cut_within_bytes: 6_000, slow_per_mille: 30, slow_within_ms: 400 };
/// Between server and database: long lives, cut in the middle of a transaction.
pub(crate) const DATABASE_CONNECTIONS: FaultRates =
    FaultRates { cut_per_mille: 400, cut_within_bytes: 400_000, slow_per_mille: 60, slow_within_ms: 60 };

pub(crate) struct Proxy {
    address: String,
    open: Arc<Mutex<Vec<TcpStream>>>,
    cut: Arc<AtomicU64>,
}

/// What is to happen to one direction of a connection.
#[derive(Clone, Copy)]
struct ConnectionFault {
    /// After so many bytes.
    cut_at: Option<u64>,
    slow_ms: u64,
}

impl FaultRates {
    fn draw(&self, chance: &Chance) -> ConnectionFault {
        let cut_at = chance.happens(self.cut_per_mille).then(|| chance.below(self.cut_within_bytes));
        let slow_ms = if chance.happens(self.slow_per_mille) { chance.below(self.slow_within_ms) } else { 0 };
        ConnectionFault { cut_at, slow_ms }
    }
}

impl Proxy {
    /// In front of the server at this address.
    pub(crate) fn start(behind: String, fates: FaultRates, seed: u64) -> Result<Self> {
        let listener = TcpListener::bind("127.0.0.1:0")?;
        let address = listener.local_addr()?.to_string();
        let open = Arc::new(Mutex::new(Vec::new()));
        let cut = Arc::new(AtomicU64::new(0));
        let (streams, cuts) = (open.clone(), cut.clone());
        Builder::new().name("proxy".into()).spawn(move || {
            let chance = Chance::new(seed ^ 0x1234);
            for client in listener.incoming().flatten() {
                // If the server is down, the connection just ends.
                if let Ok(upstream) = TcpStream::connect(&behind) {
                    let both = [fates.draw(&chance), fates.draw(&chance)];
                    let _ = join(client, upstream, both, &streams, &cuts);
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
    fates: [ConnectionFault; 2],
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
    let ways = [(client.try_clone()?, upstream.try_clone()?), (upstream, client)];
    for ((from, to), fate) in ways.into_iter().zip(fates) {
        let cuts = cuts.clone();
        Builder::new().name("relay".into()).spawn(move || relay(from, to, fate, &cuts))?;
    }
    Ok(())
}

fn relay(mut from: TcpStream, mut to: TcpStream, fate: ConnectionFault, cuts: &AtomicU64) {
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
