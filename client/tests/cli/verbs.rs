//! Every verb that help lists, against three nodes: once for people and once for programs. A verb that is missing here
//! fails the test.

use crate::help::leaves;
use crate::world::{ACTORS, Said, Tenure, World};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;
use std::collections::BTreeSet;
use std::fs;
use test_support::until;

/// The verbs that have been run so far.
struct Told {
    world: World,
    all: BTreeSet<String>,
    for_people: BTreeSet<String>,
    for_programs: BTreeSet<String>,
}

impl Told {
    async fn start() -> Self {
        let world = World::start().await;
        let all = leaves(world.home.path());
        Self { world, all, for_people: BTreeSet::new(), for_programs: BTreeSet::new() }
    }

    /// The verb at the start of a line.
    fn verb(&self, line: &str) -> String {
        let is_verb = |verb: &&String| line == verb.as_str() || line.starts_with(&format!("{verb} "));
        self.all.iter().find(is_verb).unwrap_or_else(|| panic!("there is no such verb: {line}")).clone()
    }

    /// Runs a line for people: the output contains this text and is not JSON.
    fn people(&mut self, line: &str, read: &str) {
        let said = self.world.says(line);
        self.reads(line, &said, read);
    }

    fn reads(&mut self, line: &str, said: &Said, read: &str) {
        assert!(said.out.contains(read) || said.err.contains(read), "{line}: {read}: {said:?}");
        assert!(serde_json::from_str::<Value>(&said.out).is_err(), "{line}: {said:?}");
        self.for_people.insert(self.verb(line));
    }

    /// Runs a line for programs: every line of the output is JSON with this field.
    fn programs(&mut self, line: &str, has: &str) {
        let said = self.world.tenure(line.split(' ').chain(["--json"])).said().ends_with(0);
        self.parses(line, &said, has);
    }

    fn parses(&mut self, line: &str, said: &Said, has: &str) {
        let values = said.out.lines().map(serde_json::from_str::<Value>).collect::<Result<Vec<_>, _>>();
        let values = values.unwrap_or_else(|error| panic!("{line}: {error}: {said:?}"));
        assert!(!values.is_empty() && values.iter().all(|value| value.pointer(has).is_some()), "{line}: {said:?}");
        self.for_programs.insert(self.verb(line));
    }

    /// Runs the same line for both.
    fn both(&mut self, line: &str, read: &str, has: &str) {
        self.people(line, read);
        self.programs(line, has);
    }

    /// Runs a line on one item for people, and on another for programs.
    fn each(&mut self, line: &str, read: &str, has: &str, tokens: [u64; 2]) {
        let of = |item: &str, token: u64| line.replace("ITEM", item).replace("TOKEN", &token.to_string());
        self.people(&of("a", tokens[0]), read);
        self.programs(&of("b", tokens[1]), has);
    }

    fn holding(&mut self) {
        self.each("add ITEM --queue ops", "a added: queued", "/created", [0, 0]);
        self.each("claim ITEM", "token  1", "/token", [0, 0]);
        self.each("renew ITEM TOKEN", "a is yours", "/expires_in_ms", [1, 2]);
        self.each("extend ITEM TOKEN 1m", "a is yours", "/capped", [1, 2]);
        self.both("show a", "held by", "/holder/actor");
        self.both("list", "ada", "/items/1/id");
        self.both("mine", "leased", "/leased/1/token");
        self.both("line a", "PLACE", "/places");
        self.both("withdraw a", "you were not in the line", "/withdrawn");
        self.each("update ITEM TOKEN --title new", "a is at revision", "/revision", [1, 2]);
        self.each("activity ITEM TOKEN --note half", "a is active", "/state", [1, 2]);
        self.each("await-input ITEM TOKEN --question really?", "a is awaiting_input", "/state", [1, 2]);
        self.each("resume ITEM TOKEN", "a is active", "/state", [1, 2]);
        self.each("reserve ITEM TOKEN", "a is reserved until", "/until", [1, 2]);
        self.each("claim ITEM", "token  3", "/token", [0, 0]);
        self.each("release ITEM TOKEN", "a is released", "/released", [3, 4]);
        self.both("peek ops", "queued", "/items/0/id");
        self.both("next ops", "token  5", "/grants/0/token");
        self.each("revoke ITEM --reason maintenance", "a: its lease is ended", "/revoked", [0, 0]);
        self.both("top --once", "QUEUE", "/cluster/leader");
    }

    fn ending(&mut self) {
        self.each("claim ITEM", "token  7", "/token", [0, 0]);
        self.each("complete ITEM TOKEN", "a is complete", "/state", [7, 8]);
        self.each("reopen ITEM", "a is queued", "/state", [0, 0]);
        self.each("claim ITEM", "token  9", "/token", [0, 0]);
        self.each("fail ITEM TOKEN --final", "a is error", "/state", [9, 10]);
        self.each("retry ITEM", "a is queued", "/state", [0, 0]);
        self.each("claim ITEM", "token  11", "/token", [0, 0]);
        self.each("hand-on ITEM TOKEN --phase review", "a is queued", "/state", [11, 12]);
        self.each("assign ITEM bob", "a is assigned to bob", "/actor", [0, 0]);
        self.each("unassign ITEM bob", "a is no longer assigned", "/unassigned", [0, 0]);
        self.each("cancel ITEM", "a is cancelled", "/state", [0, 0]);
        self.both("watch --from start --no-follow", "granted", "/kind");
    }

    /// `exec` and `work` pass on the output of their commands; a refusal is JSON all the same.
    async fn running(&mut self) {
        self.world.adds("c");
        self.people("exec c -- echo held", "held");
        self.world.claims("c");
        let line = "exec c --json -- echo held";
        let refused = self.world.tenure_as("bob", line.split(' ')).said().ends_with(3);
        self.parses(line, &refused, "/code");
        self.world.says("release c");

        let line = "work ops -- echo done";
        let work = self.world.tenure(line.split(' ')).begins();
        until("it is complete", async || self.world.state("c") == "complete").await;
        kill_process(Pid::from_raw(work.id().cast_signed()).unwrap(), Signal::TERM).unwrap();
        let work = Said::new(work.wait_with_output().unwrap()).ends_with(0);
        self.reads(line, &work, "stopped");
        assert_eq!(work.out, "done\n");
        let line = "work ops --json --api-key tenure_nobodys -- echo done";
        let refused = self.world.tenure(line.split(' ')).said().ends_with(1);
        self.parses(line, &refused, "/code");

        let api_keys = ACTORS.map(|actor| fs::read_to_string(self.world.cluster().api_key_file_of(actor)).unwrap());
        fs::write(self.world.home.path().join("actors"), api_keys.join("\n")).unwrap();
        self.both("bench --callers 2 --seconds 50ms --items 50 --actors actors", "PER SECOND", "/histogram/0/1");
    }

    fn operating(&mut self) {
        self.both("queue list", "QUEUE", "/queues/0/queue");
        self.both("queue show ops", "policy version", "/policy");
        self.both("queue policy ops --lease-for 5m", "policy of ops", "/version");
        self.both("queue pause ops", "ops is paused", "/flow");
        self.both("queue unpause ops", "ops is open", "/flow");
        self.both("queue drain ops", "ops is draining", "/flow");
        self.both("worker register", "registered", "/alive_for_ms");
        self.both("worker list", "alive", "/workers/0/actor");
        self.both("worker drain ada", "ada gets no new items", "/known");
        self.people("worker remove ada", "ada is removed");
        self.programs("worker remove ada", "/removed");
        self.both("space show", "live items", "/policy");
        self.both("space policy --items-max 1000", "policy of the space", "/version");
    }

    fn leading(&mut self) {
        let at = [1, 2].map(|node| self.world.cluster().endpoint(node));
        self.both("cluster status", "follower", "/members/2/id");
        self.both("cluster transfer", "is the leader", "/node");
        self.both(&format!("cluster snapshot --at {}", at[0]), "node 2 took a snapshot", "/applied");
        self.both(&format!("cluster drain --at {}", at[1]), "node 3 rejects commands", "/draining");
        self.both(&format!("cluster undrain --at {}", at[1]), "node 3 accepts commands", "/draining");
        self.both("cluster rules 1", "rules 1 are in force", "/version");
        self.both("cluster promote 2", "node 2 is a voter", "/node");
        let add = |node: u64| format!("cluster add --node {node} --peer-address 127.0.0.1:1 --instance 7");
        self.people(&add(4), "node 4 may join");
        self.programs(&add(5), "/node");
        self.both("cluster join-secret --for 5m --node-id 6", "tenure_join_", "/secret");
        self.people("cluster remove 4", "node 4 is removed from the cluster");
        self.programs("cluster remove 5", "/node");
        self.people("cluster backup kept", "kept: ");
        self.programs("cluster backup", "/bytes");
    }

    /// Two new clusters from one backup.
    async fn restoring(&mut self) {
        self.world.cluster().kill_all();
        let mut restored = Vec::new();
        for at in [0, 1] {
            self.world.cluster().await_restore(at);
            let endpoint = self.world.cluster().endpoint(at);
            let mut line = vec!["cluster", "restore", "kept", "--at", &endpoint];
            line.extend((at == 1).then_some("--json"));
            let mut done = None;
            until("it is restored", async || {
                let said = self.world.tenure(&line).said();
                // It takes a moment to listen.
                assert!(said.code == 0 || said.code == 6, "{said:?}");
                done = (said.code == 0).then_some(said);
                done.is_some()
            })
            .await;
            restored.extend(done);
        }
        self.reads("cluster restore kept", &restored[0], "node 1 is restored as cluster ");
        self.parses("cluster restore kept", &restored[1], "/cluster");
        let endpoint = self.world.cluster().endpoint(0);
        until("it serves", async || self.world.tenure(["show", "c", "--endpoint", &endpoint]).said().code == 0).await;
        self.both(&format!("cluster activate --endpoint {endpoint}"), "the cluster grants again", "/activated");
    }

    /// Verbs that need no node.
    fn by_itself(&mut self) {
        self.world.adds("d");
        let api_key_file = self.world.cluster().api_key_file_of("bob");
        let set = format!("--endpoint {} --api-key-file {}", self.world.endpoints(), api_key_file.display());
        self.both(&format!("profile set here {set}"), "profile here is set", "/identity");
        let listed = self.with_profile("list --limit 1");
        assert_eq!(listed.out.lines().count(), 2, "{listed:?}");
        self.both("profile list", "*  here", "/name");
        self.both("profile use here", "profile here is the current one", "/current");
        self.both("profile show", "the API key in ", "/identity");
        self.people("profile remove here", "profile here is removed");
        self.world.says(&format!("profile set here {set}"));
        self.programs("profile remove here", "/removed");
        self.both("man pages", "manual pages are in pages", "/folder");
        self.both("exit-codes", "3    refused", "/means");
        // Completions are for a program anyway: the output is the same.
        let completions = self.world.says("completions bash");
        assert_eq!(completions.out, self.world.says("completions bash --json").out);
        self.reads("completions bash", &completions, "hand-on");
        self.for_programs.insert("completions".into());
    }

    fn with_profile(&self, line: &str) -> Said {
        let tenure: Tenure = self.world.tenure(line.split(' '));
        tenure.without("TENURE_ENDPOINT").without("TENURE_API_KEY_FILE").said().ends_with(0)
    }
}

#[tokio::test]
async fn every_verb_works_for_people_and_programs_on_three_nodes() {
    let mut told = Told::start().await;
    told.holding();
    told.ending();
    told.running().await;
    told.by_itself();
    told.operating();
    told.leading();
    told.restoring().await;
    assert!(told.all.len() > 50, "help lists few: {:?}", told.all);
    let missing = |run: &BTreeSet<String>| told.all.difference(run).cloned().collect::<Vec<_>>();
    assert_eq!(missing(&told.for_people), [""; 0], "not run for people");
    assert_eq!(missing(&told.for_programs), [""; 0], "not run for programs");
}
