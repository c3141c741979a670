//! The console's address and the encoding of its assets.

use crate::harness::Outlive;

#[test]
fn the_console_with_a_trailing_slash_redirects() {
    let outlive = Outlive::start();
    let response = outlive.get("/ui/");
    assert_eq!((response.status, response.header("location")), (308, Some("/ui")));
}

#[test]
fn assets_are_compressed_only_for_clients_that_accept_gzip() {
    let outlive = Outlive::start();
    let dist = concat!(env!("CARGO_MANIFEST_DIR"), "/../../web/console/dist");
    for (path, file) in [("/ui", "index.html"), ("/ui/app.js", "app.js"), ("/ui/app.css", "app.css")] {
        let get = |headers: &[(&str, &str)]| outlive.http().send("GET", path, headers, None);
        let built = std::fs::read(format!("{dist}/{file}")).unwrap();
        for headers in [&[][..], &[("accept-encoding", "br, gzip;q=0")]] {
            let plain = get(headers);
            assert_eq!((plain.header("content-encoding"), plain.header("vary")), (None, Some("accept-encoding")));
            assert!(plain.body == built, "{path}");
        }
        let (plain, compressed) = (get(&[]), get(&[("accept-encoding", "gzip, deflate, br")]));
        assert_eq!(compressed.header("content-encoding"), Some("gzip"), "{path}");
        assert_eq!(compressed.header("vary"), Some("accept-encoding"));
        assert!(compressed.body.starts_with(b"\x1f\x8b") && compressed.body.len() < built.len());
        assert_ne!(plain.header("etag"), compressed.header("etag"), "the bytes differ");
        for (encoding, response) in [("identity", &plain), ("gzip", &compressed)] {
            let tag = response.header("etag").unwrap();
            let revalidated = get(&[("accept-encoding", encoding), ("if-none-match", tag)]);
            assert_eq!((revalidated.status, revalidated.body.len()), (304, 0), "{path} {encoding}");
            assert_eq!(revalidated.header("vary"), Some("accept-encoding"));
        }
    }
}
