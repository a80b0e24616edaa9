//! Where a word goes that measuring says: to whoever awaits a plan, or among those of the device and the run.

use std::cell::RefCell;
use std::rc::Rc;

use futures_channel::oneshot::{Receiver, Sender, channel};
use parallax_lab::protocol::Word;

/// The number of a plan, and where it is awaited.
type Plan = (u32, Sender<Word>);

/// The last plan that was ordered, while it is awaited. Of those before it nobody wants to hear.
#[derive(Clone, Default)]
pub struct Awaited(Rc<RefCell<Option<Plan>>>);

impl Awaited {
    /// Await the plan of this number, and no other.
    pub fn plan(&self, number: u32) -> Receiver<Word> {
        let (sender, receiver) = channel();
        *self.0.borrow_mut() = Some((number, sender));
        receiver
    }

    /// Take a word that is about a plan, or give it back.
    pub fn take(&self, word: Word) -> Option<Word> {
        let awaited = self.0.borrow_mut().take_if(|(awaited, _)| match &word {
            Word::Planned { number, .. } => number == awaited,
            // There will be no plan.
            Word::Broken { .. } => true,
            _ => false,
        });
        match (awaited, word) {
            // Whoever ordered it may have gone.
            (Some((_, sender)), word) => sender.send(word).err(),
            (None, Word::Planned { .. }) => None,
            (None, word) => Some(word),
        }
    }

    /// There will be no answer any more.
    pub fn give_up(&self) {
        self.0.take();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use parallax_core::plan::Unplanned;

    fn planned(number: u32) -> Word {
        Word::Planned { number, planned: Err(Unplanned::NothingMatches(String::new())) }
    }

    #[test]
    fn a_plan_goes_to_whoever_awaits_it_and_all_else_goes_on() {
        let awaited = Awaited::default();
        let (mut overtaken, mut last) = (awaited.plan(1), awaited.plan(2));
        assert!(overtaken.try_recv().is_err(), "it is awaited no more");
        assert_eq!(awaited.take(planned(1)), None);
        assert_eq!(last.try_recv(), Ok(None), "that was another");
        let other = Word::Unavailable { why: String::new() };
        assert_eq!(awaited.take(other.clone()), Some(other));
        assert_eq!(awaited.take(planned(2)), None);
        assert_eq!(last.try_recv(), Ok(Some(planned(2))));
    }

    #[test]
    fn whoever_awaits_a_plan_hears_that_there_will_be_none() {
        let (awaited, broken) = (Awaited::default(), Word::Broken { why: String::new() });
        let mut plan = awaited.plan(1);
        assert_eq!(awaited.take(broken.clone()), None);
        assert_eq!(plan.try_recv(), Ok(Some(broken.clone())));
        assert_eq!(awaited.take(broken.clone()), Some(broken), "where nobody awaits one, the run hears it");
        let mut given_up = awaited.plan(2);
        awaited.give_up();
        assert!(given_up.try_recv().is_err());
    }
}
