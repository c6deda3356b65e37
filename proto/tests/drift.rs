//! The committed code is what the .proto files say. `ROLLCALL_REGENERATE=1 cargo test -p rollcall-proto --test drift`
//! rewrites it.

use std::path::Path;

#[test]
fn generated_code_is_what_the_proto_files_say() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let files = ["types", "discovery", "registrar", "keeper", "admin", "feed"]
        .map(|f| root.join(format!("rollcall/v1/{f}.proto")));
    let descriptors = protox::compile(&files, [root]).unwrap();
    let fresh = tempfile::tempdir().unwrap();
    tonic_prost_build::configure()
        .out_dir(fresh.path())
        .file_descriptor_set_path(fresh.path().join("rollcall.v1.fds.bin"))
        .bytes(".")
        .btree_map(".")
        .compile_fds(descriptors.clone())
        .unwrap();
    let encoded = prost::Message::encode_to_vec(&descriptors);
    std::fs::write(fresh.path().join("rollcall.v1.fds.bin"), encoded).unwrap();
    let committed = root.join("src/gen");
    for name in ["rollcall.v1.rs", "rollcall.v1.fds.bin"] {
        let now = std::fs::read(fresh.path().join(name)).unwrap();
        if std::env::var_os("ROLLCALL_REGENERATE").is_some() {
            std::fs::write(committed.join(name), &now).unwrap();
        }
        let then = std::fs::read(committed.join(name)).unwrap_or_default();
        assert!(now == then, "src/gen/{name} is not what the proto files say; see this test's head");
    }
}
