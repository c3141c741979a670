//! What has to be true after every step.

use super::World;

impl World {
    pub(super) fn check(&self) {
        let (tail, head) = (self.reader.tail(), self.reader.head());
        assert_eq!(head, self.bytes.len() as u64);
        assert!(tail <= head);
        assert!(head - tail <= self.reader.capacity());
        let marks = self.reader.marks();
        assert_eq!(marks.end, self.marks.len() as u64);
        // Held bytes stay, whatever else happens, but for a drain beyond the reserve.
        for (token, held) in self.holds() {
            assert!(self.reader.holds(token), "a hold vanished: {held}");
            // A reader may ask for bytes that were gone before it came.
            assert!(tail <= held.max(self.overrun), "held {held} overwritten, tail {tail}");
        }
        // The budget is kept as long as there are marks for it.
        let due = head.saturating_sub(self.reader.budget());
        let short_of_marks = marks.end - marks.start + 16 >= self.mark_slots;
        assert!(tail <= due || short_of_marks || self.overrun > 0, "budget not kept: {tail}..{head}");
        // Marks: the first covers the tail, and some in the middle are what the model says.
        if head > tail {
            let first = self.reader.mark(marks.start).expect("a mark covers the tail");
            assert!(first.offset <= tail, "the oldest byte has a mark");
        }
        let count = marks.end - marks.start;
        for number in (0..16).map(|part| marks.start + count * part / 16).filter(|number| *number < marks.end) {
            let mark = self.reader.mark(number).unwrap();
            assert_eq!((mark.offset, mark.stream), self.marks[number as usize]);
            assert_eq!(mark.sequence, number + 1);
        }
        for offset in (0..8).map(|part| tail + (head - tail) * part / 8).filter(|offset| *offset < head) {
            let expected = self.marks.partition_point(|(start, _)| *start <= offset) as u64 - 1;
            assert_eq!(self.reader.mark_of(offset), Some(expected));
        }
    }
}
