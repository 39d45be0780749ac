//! Two types of work: one launches a kernel, the other only copies.

use std::cell::{Cell, RefCell};
use std::mem::MaybeUninit;
use std::slice;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::Duration;

use simjoin_gpu::runtime::{
    Device, DeviceError, DeviceWork, Images, LaunchGrid, PinnedBuffer, Results, Stage, Usage,
};

/// The kernel of [`Fill`], which the emulator has in `kernels/emulator/self_test.cu`.
pub(crate) static FILL: Images = Images {
    cubins: &[],
    ptx: "
.version 8.4
.target sm_75
.address_size 64
.visible .entry self_test_fill(.param .align 8 .b8 fill[16])
{
    .reg .pred %p<2>;
    .reg .b32 %r<8>;
    .reg .b64 %rd<5>;
    ld.param.u64 %rd1, [fill];
    ld.param.u32 %r1, [fill+8];
    ld.param.u32 %r2, [fill+12];
    cvta.to.global.u64 %rd2, %rd1;
    mov.u32 %r3, %ctaid.x;
    mov.u32 %r4, %ntid.x;
    mov.u32 %r5, %tid.x;
    mad.lo.s32 %r6, %r3, %r4, %r5;
    setp.ge.u32 %p1, %r6, %r2;
    @%p1 bra DONE;
    mul.wide.u32 %rd3, %r6, 4;
    add.s64 %rd4, %rd2, %rd3;
    add.s32 %r7, %r1, %r6;
    st.global.u32 [%rd4], %r7;
DONE:
    ret;
}
\0",
};

/// The fate of a work besides.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) enum Mishap {
    #[default]
    None,
    /// A panic where it is issued, where it is finished, or answered.
    Issue,
    Finish,
    Answer,
}

/// The answer to a work: its number, and the numbers that it found.
type Answer = (usize, Vec<u32>, Result<Usage, DeviceError>);

#[derive(Debug)]
struct Ticket {
    number: usize,
    mishap: Mishap,
    sender: Sender<Answer>,
}

impl Ticket {
    fn pass(&self, at: Mishap) {
        if self.mishap == at {
            std::panic::resume_unwind(Box::new(format!("{at:?} panics")));
        }
    }

    fn answer(&self, found: Vec<u32>, outcome: Result<Usage, DeviceError>) {
        // Nobody listens any more where a test gives up.
        let _ = self.sender.send((self.number, found, outcome));
        self.pass(Mishap::Answer);
    }
}

/// Has a kernel write `count` numbers from `first` on, and reads them back.
#[derive(Debug)]
struct Fill {
    ticket: Ticket,
    first: u32,
    count: u32,
    found: Vec<u32>,
}

/// The argument of the kernel.
#[derive(Debug, Clone, Copy)]
#[repr(C)]
struct Filled {
    out: u64,
    first: u32,
    count: u32,
}

const BLOCK: u32 = 64;

impl DeviceWork for Fill {
    fn issue(&mut self, stage: &mut Stage<'_>) -> Result<(), DeviceError> {
        let Self { first, count, .. } = *self;
        let out = stage.reserve("numbers", u64::from(count) * 4)?;
        stage.clear(0, count as usize * 4)?;
        let kernel = stage.kernel(&FILL, "self_test_fill")?;
        assert!(kernel.shared_words() >= 11 * 1024);
        let grid = LaunchGrid { blocks: count.div_ceil(BLOCK), threads: BLOCK, shared_words: 0 };
        // SAFETY: the kernel takes this argument and writes `count` numbers.
        unsafe { stage.launch(kernel, grid, Filled { out, first, count })? };
        self.ticket.pass(Mishap::Issue);
        stage.note(0, 4)
    }

    fn finish(&mut self, results: &mut Results<'_>) -> Result<(), DeviceError> {
        self.ticket.pass(Mishap::Finish);
        assert_eq!(results.note::<u32>()?, self.first);
        assert!(results.note::<u64>().is_err());
        let beyond = &mut [MaybeUninit::<u8>::uninit(); 1];
        assert!(results.fetch(1 << 40, beyond).is_err());
        self.found = fetch(results, self.count as usize)?;
        Ok(())
    }

    fn answer(self: Box<Self>, outcome: Result<Usage, DeviceError>) {
        self.ticket.answer(self.found, outcome);
    }
}

/// Copies numbers to the device, clears the last quarter there, and copies them back.
#[derive(Debug)]
struct Echo {
    ticket: Ticket,
    pinned: PinnedBuffer,
    count: usize,
    found: Vec<u32>,
}

impl DeviceWork for Echo {
    fn issue(&mut self, stage: &mut Stage<'_>) -> Result<(), DeviceError> {
        let (count, kept) = (self.count, kept(self.count));
        if count == 0 {
            return Ok(());
        }
        // SAFETY: the constructor has filled it.
        let bytes = unsafe { slice::from_raw_parts(self.pinned.start().as_ptr(), count * 4) };
        stage.reserve("numbers", bytes.len() as u64)?;
        // SAFETY: this work alone has the pinned memory, and it is not written again.
        unsafe { stage.copy(0, bytes)? };
        assert!(stage.reserve("numbers", 1).is_err(), "reserved behind its use");
        assert!(stage.clear(1 << 40, 1).is_err(), "beyond the memory");
        stage.clear(kept as u64 * 4, (count - kept) * 4)?;
        self.ticket.pass(Mishap::Issue);
        Ok(())
    }

    fn finish(&mut self, results: &mut Results<'_>) -> Result<(), DeviceError> {
        self.ticket.pass(Mishap::Finish);
        self.found = fetch(results, self.count)?;
        Ok(())
    }

    fn answer(self: Box<Self>, outcome: Result<Usage, DeviceError>) {
        self.ticket.answer(self.found, outcome);
    }
}

/// The part that [`Echo`] does not clear.
fn kept(count: usize) -> usize {
    count - count / 4
}

fn fetch(results: &mut Results<'_>, count: usize) -> Result<Vec<u32>, DeviceError> {
    let mut found = Vec::with_capacity(count);
    results.fetch(0, &mut found.spare_capacity_mut()[..count])?;
    // SAFETY: they have been fetched.
    unsafe { found.set_len(count) };
    Ok(found)
}

/// Submits works, and holds their answers to what must come of them.
pub(crate) struct Inbox {
    sender: Sender<Answer>,
    answers: Receiver<Answer>,
    /// By the number of the work.
    expected: RefCell<Vec<Vec<u32>>>,
    mishap: Cell<Mishap>,
}

impl Inbox {
    pub(crate) fn new() -> Self {
        let (sender, answers) = channel();
        Self { sender, answers, expected: RefCell::default(), mishap: Cell::default() }
    }

    /// Sets what the next work meets.
    pub(crate) fn meet(&self, mishap: Mishap) {
        self.mishap.set(mishap);
    }

    fn ticket(&self, expected: Vec<u32>) -> Ticket {
        let mut all = self.expected.borrow_mut();
        all.push(expected);
        Ticket { number: all.len() - 1, mishap: self.mishap.take(), sender: self.sender.clone() }
    }

    /// Submits a work with a kernel.
    pub(crate) fn fill(&self, device: &Device, first: u32, count: u32) {
        let ticket = self.ticket((first..first + count).collect());
        device.submit(Box::new(Fill { ticket, first, count, found: vec![] }));
    }

    /// Submits a work of copies alone.
    pub(crate) fn echo(&self, device: &Device, first: u32, count: u32) -> Result<(), DeviceError> {
        let numbers: Vec<u32> = (first..first + count).collect();
        let pinned = device.pinned(size_of_val(&numbers[..]))?;
        // SAFETY: there is room for them, in memory that this work alone has.
        unsafe {
            numbers.as_ptr().copy_to_nonoverlapping(pinned.start().cast().as_ptr(), numbers.len())
        };
        let count = numbers.len();
        let mut expected = numbers;
        expected[kept(count)..].fill(0);
        let ticket = self.ticket(expected);
        device.submit(Box::new(Echo { ticket, pinned, count, found: vec![] }));
        Ok(())
    }

    fn wait(&self) -> Answer {
        self.answers.recv_timeout(Duration::from_secs(60)).expect("every work is answered")
    }

    /// The answers to all works so far, by number; none is answered twice, those that succeed
    /// are right.
    pub(crate) fn wait_for_all(&self) -> Vec<Result<Usage, DeviceError>> {
        self.wait_in_order().1
    }

    /// Waits for the answers; also gives the order in which they came.
    pub(crate) fn wait_in_order(&self) -> (Vec<usize>, Vec<Result<Usage, DeviceError>>) {
        let expected = self.expected.take();
        let mut order = vec![];
        let mut answers: Vec<_> = expected.iter().map(|_| None).collect();
        for _ in &expected {
            let (number, found, outcome) = self.wait();
            if outcome.is_ok() {
                assert_eq!(found, expected[number], "work {number}");
            }
            assert!(answers[number].replace(outcome).is_none(), "answered twice");
            order.push(number);
        }
        assert!(self.answers.try_recv().is_err(), "answered twice");
        (order, answers.into_iter().flatten().collect())
    }
}
