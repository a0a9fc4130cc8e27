//! Profiles, API keys, and the identity without either.

use crate::world::{Tenure, World};
use expect_test::expect;
use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt as _;

fn without_environment(world: &World, words: &[&str]) -> Tenure {
    world.tenure(words).without("TENURE_ENDPOINT").without("TENURE_ACTOR")
}

#[tokio::test]
async fn a_profile_sets_the_endpoint_and_the_identity() {
    let world = World::development().await;
    let endpoint = format!("http://{}", world.daemon().address);
    let tenure = |words: &[&str]| without_environment(&world, words).said();
    tenure(&["profile", "set", "dev", "--endpoint", &endpoint, "--actor", "bob", "--space", "lab"]).ends_with(0);
    tenure(&["profile", "set", "prod", "--endpoint", "https://a:7400,https://b:7400", "--api-key", "tenure_s3cret"])
        .ends_with(0);
    let listed = tenure(&["profile", "list"]).ends_with(0);
    assert!(listed.out.contains("*  dev") && !listed.out.contains("s3cret"), "{listed:?}");
    tenure(&["profile", "show", "prod"]).ends_with(0).reads(&expect![[r#"
        name       prod
        endpoints  https://a:7400 https://b:7400
        identity   an API key in the profile
    "#]]);
    let shown = tenure(&["profile", "show", "--json"]).ends_with(0).value();
    assert_eq!(
        (&shown["name"], &shown["identity"], &shown["space"]),
        (&"dev".into(), &"actor bob".into(), &"lab".into())
    );
    let file = world.home.path().join("config/tenure/profiles.toml");
    assert_eq!(fs::metadata(&file).unwrap().permissions().mode() & 0o777, 0o600);

    tenure(&["add", "disk", "--queue", "ops"]).ends_with(0);
    let claimed = tenure(&["claim", "disk"]).ends_with(0);
    assert!(claimed.out.contains("disk"), "{claimed:?}");
    assert_eq!(tenure(&["show", "disk", "--json"]).ends_with(0).value()["holder"]["actor"], "bob");
    // Options override the profile.
    tenure(&["--actor", "eve", "claim", "disk"]).ends_with(3);

    tenure(&["profile", "use", "prod"]).ends_with(0);
    tenure(&["profile", "remove", "prod"]).ends_with(0);
    tenure(&["profile", "show"]).ends_with(4);
    tenure(&["profile", "use", "prod"]).ends_with(2).complains(&expect![[r#"
        tenure: there is no profile prod: `tenure profile list` shows all profiles
                `tenure help` lists the commands
    "#]]);
    tenure(&["--profile", "prod", "list"]).ends_with(2);
}

#[tokio::test]
async fn an_api_key_file_that_others_can_read_is_rejected() {
    let world = World::development().await;
    let api_key_file = world.home.path().join("api-key");
    fs::write(&api_key_file, "tenure_s3cret\n").unwrap();
    fs::set_permissions(&api_key_file, Permissions::from_mode(0o640)).unwrap();
    let said = world.tenure(["--api-key-file", "api-key", "list"]).said().ends_with(1);
    said.complains(&expect![[r#"
        tenure: api-key holds an API key, but other users may read it (mode 640): not used
                chmod 600 api-key, and consider replacing the API key
    "#]]);
    fs::set_permissions(&api_key_file, Permissions::from_mode(0o600)).unwrap();
    // A development node has no API keys.
    let said = world.tenure(["--api-key-file", "api-key", "list"]).said();
    assert!(!said.err.contains("other users may read"), "{said:?}");

    let tenure = |words: &[&str]| without_environment(&world, words).said();
    tenure(&["profile", "set", "dev", "--api-key", "tenure_s3cret"]).ends_with(0);
    let file = world.home.path().join("config/tenure/profiles.toml");
    fs::set_permissions(&file, Permissions::from_mode(0o644)).unwrap();
    let said = tenure(&["list"]).ends_with(1);
    assert!(said.err.contains("other users may read"), "{said:?}");
}

#[tokio::test]
async fn the_default_is_the_user_name_on_the_local_node() {
    let world = World::development().await;
    let endpoint = format!("http://{}", world.daemon().address);
    without_environment(&world, &["--endpoint", &endpoint, "add", "disk", "--queue", "ops"]).said().ends_with(0);
    without_environment(&world, &["--endpoint", &endpoint, "claim", "disk"]).said().ends_with(0);
    let shown = world.says("show disk --json").value();
    assert_eq!(shown["holder"]["actor"], "zoe");
}

#[test]
fn completions_and_manual_pages_are_made() {
    let home = tempfile::tempdir().unwrap();
    for shell in ["bash", "zsh", "fish", "elvish", "powershell"] {
        let said = Tenure::new(home.path(), ["completions", shell]).said().ends_with(0);
        assert!(said.out.contains("hand-on"), "{shell}");
    }
    Tenure::new(home.path(), ["man", "pages"]).said().ends_with(0);
    let page = fs::read_to_string(home.path().join("pages/tenure-exec.1")).unwrap();
    assert!(page.contains("TENURE_TOKEN"), "{page}");
}
