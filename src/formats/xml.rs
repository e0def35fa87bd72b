//! What the tests of XML formats share.

/// Every tag is closed in order, and no text holds a bare `<` or `&`.
pub fn well_formed(text: &str) {
    let mut open: Vec<&str> = Vec::new();
    let text = text.strip_prefix("<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n").unwrap_or(text);
    let mut parts = text.split('<');
    assert_eq!(parts.next(), Some(""));
    for part in parts {
        let (tag, rest) = part.split_once('>').expect("a tag without an end");
        assert!(!rest.contains('>'), "a bare > in {rest:?}");
        for entity in part.split('&').skip(1) {
            let name = entity.split_once(';').expect("a bare &").0;
            assert!(["lt", "gt", "amp", "quot", "apos"].contains(&name), "{name}");
        }
        assert_eq!(tag.matches('"').count() % 2, 0, "{tag}");
        match (tag.strip_prefix('/'), tag.ends_with('/')) {
            (Some(name), _) => assert_eq!(open.pop(), Some(name)),
            (None, false) => open.push(tag.split(' ').next().unwrap()),
            (None, true) => {}
        }
    }
    assert!(open.is_empty(), "{open:?} stay open");
    assert!(text.chars().all(|c| !c.is_control() || c == '\n'), "a control character");
}
