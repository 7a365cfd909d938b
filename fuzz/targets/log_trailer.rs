//! The input is the numbers of a trailer of the coin log, where it lies, damage, and changes.
//!
//! Checked: the trailer is read as it was written, and its head too. A damaged page is refused. A
//! page that was changed and sealed again is no trailer, or one that has the same bytes when it is
//! written again; its other bytes do not matter.

#![no_main]

use blockmill_block::BlockHash;
use blockmill_coins::Tip;
use blockmill_fuzz::input::Input;
use blockmill_fuzz::log_pages::{damage, has_right_checksum, head_fields};
use blockmill_store_log::format::page::{HEAD_BYTES, PAGE_BYTES, Page, PageHead, PageKind, PagePosition, seal};
use blockmill_store_log::format::trailer::Trailer;
use libfuzzer_sys::fuzz_target;

/// Bytes of a trailer after the head of its page.
const TRAILER_BYTES: usize = 72;

/// The page of a trailer, as docs/coin-log.md says.
fn written(trailer: &Trailer) -> [u8; TRAILER_BYTES] {
    let numbers = [
        trailer.start.segment,
        trailer.start.page,
        trailer.pages,
        trailer.checksum,
        trailer.previous,
    ];
    let mut bytes = [0; TRAILER_BYTES];
    for (number, four) in numbers.iter().zip(bytes.chunks_exact_mut(4)) {
        four.copy_from_slice(&number.to_le_bytes());
    }
    bytes[20..52].copy_from_slice(&trailer.tip.hash.0);
    bytes[52..56].copy_from_slice(&trailer.tip.height.to_le_bytes());
    bytes[56..64].copy_from_slice(&trailer.coins.to_le_bytes());
    bytes[64..].copy_from_slice(&trailer.digest.to_le_bytes());
    bytes
}

/// A sealed page was changed, and sealed again.
fn check_changed(page: &Page) {
    let Some(head) = PageHead::of(page) else {
        assert_eq!(head_fields(page), None, "refused in spite of its checksum");
        return;
    };
    let Some(trailer) = Trailer::read(page, &head) else {
        assert!(head.kind != PageKind::Trailer || head.used < HEAD_BYTES + TRAILER_BYTES);
        return;
    };
    assert_eq!(head.kind, PageKind::Trailer);
    let used = HEAD_BYTES..HEAD_BYTES + TRAILER_BYTES;
    assert!(head.used >= used.end);
    assert_eq!(trailer.write()[used.clone()], page[used]);
}

fn position(input: &mut Input<'_>) -> PagePosition {
    PagePosition {
        segment: input.u32(),
        page: input.u32(),
    }
}

fuzz_target!(|data: &[u8]| {
    let mut input = Input::new(data);
    let trailer = Trailer {
        start: position(&mut input),
        pages: input.u32(),
        checksum: input.u32(),
        previous: input.u32(),
        tip: Tip {
            hash: BlockHash(input.array()),
            height: input.u32(),
        },
        coins: input.u64(),
        digest: input.u64(),
    };
    let (position, flush) = (position(&mut input), input.u64());
    let epoch = input.u64();
    let mut page = trailer.write();
    seal(&mut page, position, flush, epoch);
    assert!(has_right_checksum(&page));
    let head = PageHead::of(&page).expect("a sealed page is accepted");
    assert_eq!((head.kind, head.position), (PageKind::Trailer, position));
    assert_eq!((head.flush, head.epoch), (flush, epoch));
    assert_eq!((head.records, head.used), (0, HEAD_BYTES + TRAILER_BYTES));
    assert_eq!(page[HEAD_BYTES..head.used], written(&trailer));
    assert_eq!(Trailer::read(&page, &head), Some(trailer));

    let mut damaged = page;
    damage(&mut damaged, &mut input);
    assert_eq!(PageHead::of(&damaged), None);

    while !input.is_empty() {
        let offset = usize::from(input.u16()) % PAGE_BYTES;
        page[offset] ^= input.u8();
    }
    seal(&mut page, position, flush, epoch);
    check_changed(&page);
});
