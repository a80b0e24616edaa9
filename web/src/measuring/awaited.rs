//! Dispatch of the worker's responses: to the code that awaits a plan, or to the device and the run.

use std::cell::RefCell;
use std::rc::Rc;

use futures_channel::oneshot::{Receiver, Sender, channel};
use parallax_protocol::messages::Response;

/// Number of a plan, and the channel of its response.
type Plan = (u32, Sender<Response>);

/// The latest pending plan request. Responses to earlier ones are discarded.
#[derive(Clone, Default)]
pub struct Awaited(Rc<RefCell<Option<Plan>>>);

impl Awaited {
    /// Awaits the plan of this number only.
    pub fn plan(&self, number: u32) -> Receiver<Response> {
        let (sender, receiver) = channel();
        *self.0.borrow_mut() = Some((number, sender));
        receiver
    }

    /// Takes a response about a plan, or returns it.
    pub fn take(&self, word: Response) -> Option<Response> {
        let awaited = self.0.borrow_mut().take_if(|(awaited, _)| match &word {
            Response::Planned { number, .. } => number == awaited,
            // There will be no plan.
            Response::Broken { .. } => true,
            _ => false,
        });
        match (awaited, word) {
            // The receiver may have been dropped.
            (Some((_, sender)), word) => sender.send(word).err(),
            (None, Response::Planned { .. }) => None,
            (None, word) => Some(word),
        }
    }

    /// Ends the wait for a response.
    pub fn give_up(&self) {
        self.0.take();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use parallax_schema::session::Unplanned;

    fn planned(number: u32) -> Response {
        Response::Planned { number, planned: Err(Unplanned::NothingMatches(String::new())) }
    }

    #[test]
    fn a_plan_goes_to_whoever_awaits_it_and_all_else_goes_on() {
        let awaited = Awaited::default();
        let (mut overtaken, mut last) = (awaited.plan(1), awaited.plan(2));
        assert!(overtaken.try_recv().is_err(), "it is awaited no more");
        assert_eq!(awaited.take(planned(1)), None);
        assert_eq!(last.try_recv(), Ok(None), "that was another");
        let other = Response::Unavailable { why: String::new() };
        assert_eq!(awaited.take(other.clone()), Some(other));
        assert_eq!(awaited.take(planned(2)), None);
        assert_eq!(last.try_recv(), Ok(Some(planned(2))));
    }

    #[test]
    fn whoever_awaits_a_plan_hears_that_there_will_be_none() {
        let (awaited, broken) = (Awaited::default(), Response::Broken { why: String::new() });
        let mut plan = awaited.plan(1);
        assert_eq!(awaited.take(broken.clone()), None);
        assert_eq!(plan.try_recv(), Ok(Some(broken.clone())));
        assert_eq!(awaited.take(broken.clone()), Some(broken), "an error that no request awaits goes to the run");
        let mut given_up = awaited.plan(2);
        awaited.give_up();
        assert!(given_up.try_recv().is_err());
    }
}
