//! Somebody pressed Enter in the demo's terminal.

use std::io::{self, BufRead as _, IsTerminal as _};

use tokio::sync::mpsc;

pub(crate) struct Enter {
    pressed: mpsc::UnboundedReceiver<()>,
    /// Kept, so that a listener without a terminal waits for ever.
    _tell: mpsc::UnboundedSender<()>,
}

impl Enter {
    /// Listens where there is a terminal to listen to; the thread ends with the process.
    pub(crate) fn listen() -> Self {
        let (tell, pressed) = mpsc::unbounded_channel();
        let to = tell.clone();
        if io::stdin().is_terminal() {
            let listen = move || io::stdin().lock().lines().map_while(Result::ok).all(|_| to.send(()).is_ok());
            // Without it there is only one link.
            let _ = std::thread::Builder::new().name("enter".into()).spawn(listen);
        }
        Self { pressed, _tell: tell }
    }

    pub(crate) async fn pressed(&mut self) {
        if self.pressed.recv().await.is_none() {
            std::future::pending::<()>().await;
        }
    }
}
