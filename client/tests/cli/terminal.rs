//! Colour, progress and the live view, which appear only on a terminal.

use crate::world::{Tenure, World};
use rustix::process::{Pid, Signal, kill_process};
use rustix::pty::{OpenptFlags, grantpt, ioctl_tiocgptpeer, openpt, unlockpt};
use std::fs::{self, File};
use std::io::Read as _;
use std::process::Child;
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use test_support::until;

/// A run of `tenure` on a terminal.
struct Watched {
    child: Child,
    shown: Arc<Mutex<String>>,
    eyes: JoinHandle<()>,
}

impl Watched {
    fn begins(tenure: Tenure) -> Self {
        let flags = OpenptFlags::RDWR | OpenptFlags::NOCTTY | OpenptFlags::CLOEXEC;
        let ours = openpt(flags).unwrap();
        grantpt(&ours).unwrap();
        unlockpt(&ours).unwrap();
        let theirs = ioctl_tiocgptpeer(&ours, flags).unwrap();
        let child = tenure.on(&theirs).begins();
        // The terminal then closes when the process ends.
        drop(theirs);
        let shown = Arc::new(Mutex::new(String::new()));
        let seen = shown.clone();
        let eyes = std::thread::spawn(move || {
            let mut terminal = File::from(ours);
            let mut bytes = [0; 4_096];
            while let Ok(length @ 1..) = terminal.read(&mut bytes) {
                seen.lock().unwrap().push_str(&String::from_utf8_lossy(&bytes[..length]));
            }
        });
        Self { child, shown, eyes }
    }

    fn shows(&self, text: &str) -> bool {
        self.shown.lock().unwrap().contains(text)
    }

    /// Waits for this exit code; returns all that was shown.
    fn ends_with(mut self, code: i32) -> String {
        let status = self.child.wait().unwrap();
        self.eyes.join().unwrap();
        let shown = self.shown.lock().unwrap().clone();
        assert_eq!(status.code(), Some(code), "{shown}");
        shown
    }
}

const ESCAPE: char = '\u{1b}';

#[tokio::test]
async fn colour_progress_and_the_live_view_are_for_terminals_only() {
    let world = World::start().await;
    let lines: String = (0..1_500).map(|nth| format!("{{\"id\": \"item-{nth}\"}}\n")).collect();
    fs::write(world.home.path().join("items"), lines).unwrap();
    let items = || File::open(world.home.path().join("items")).unwrap();
    let add = || world.tenure(["add", "--queue", "ops"]).reads(items());
    let shown = Watched::begins(add()).ends_with(0);
    assert!(shown.contains("[####") && shown.contains(" %  500 items"), "{shown:?}");
    assert!(shown.trim_end().ends_with("1,500 added, 0 existed already, 0 refused"), "{shown:?}");
    let said = add().said().ends_with(0);
    assert_eq!(said.err, "");

    let list = || world.tenure(["list", "--limit", "1"]);
    let shown = Watched::begins(list()).ends_with(0);
    assert!(shown.contains("\u{1b}[1mITEM\u{1b}[0m"), "{shown:?}");
    for plain in [list().env("NO_COLOR", "1"), world.tenure(["list", "--limit", "1", "--json"])] {
        let shown = Watched::begins(plain).ends_with(0);
        assert!(shown.contains("item-0") && !shown.contains(ESCAPE), "{shown:?}");
    }
    let said = list().said().ends_with(0);
    assert!(!said.out.contains(ESCAPE) && !said.err.contains(ESCAPE), "{said:?}");
    let claim = || world.tenure(["claim", "nothing"]);
    let shown = Watched::begins(claim()).ends_with(4);
    assert!(shown.contains("\u{1b}[1;31mtenure\u{1b}[0m: not_found"), "{shown:?}");
    let said = claim().said().ends_with(4);
    assert!(!said.err.contains(ESCAPE), "{said:?}");

    world.claims("item-7");
    let top = Watched::begins(world.tenure(["top", "--every", "50ms"]));
    until("it is seen", async || top.shows("item-7")).await;
    world.claims("item-8");
    // The view refreshes by itself.
    until("it is seen, too", async || top.shows("item-8")).await;
    kill_process(Pid::from_raw(top.child.id().cast_signed()).unwrap(), Signal::INT).unwrap();
    let shown = top.ends_with(0);
    // The main screen and the cursor are restored.
    assert!(shown.starts_with("\u{1b}[?1049h") && shown.ends_with("\u{1b}[?25h\u{1b}[?1049l"), "{shown:?}");
}
