package shm

import (
	"errors"
	"fmt"
	"sync/atomic"
	"unsafe"
)

// What stands where in a ring.
const (
	Cookie         = 0x3E31F20
	HeaderSize     = 128
	DescriptorSize = 16
	Alignment      = 64
	MinLog2        = 6
	MaxLog2        = 14

	flagsAndHead = 4 // flags in the lower half of this word, head in the upper
	tailWord     = 64

	maskInterrupt = 1
)

// FlagNext says that the packet goes on in the next slot.
const FlagNext = 1

// Why a ring can't be where the peer says.
var (
	ErrOutside    = errors.New("ring is not inside its region")
	ErrMisaligned = errors.New("ring is not aligned to 64 bytes")
	ErrCookie     = errors.New("wrong cookie on ring")
)

// Descriptor is one slot of a ring, read out of it.
type Descriptor struct {
	Flags  uint16
	Region uint16
	Length uint32
	Offset uint32
}

// HasNext says whether the packet goes on in the next slot.
func (d Descriptor) HasNext() bool { return d.Flags&FlagNext != 0 }

func (d Descriptor) first() uint64 {
	return uint64(d.Flags) | uint64(d.Region)<<16 | uint64(d.Length)<<32
}

// Ring is a ring at a checked place of a region, valid until the region is closed.
type Ring struct {
	base unsafe.Pointer
	mask uint16
}

// RingSize is the bytes of a ring of 2^log2 descriptors.
func RingSize(log2 uint8) uint32 { return HeaderSize + DescriptorSize<<log2 }

// NewRing finds the ring of 2^log2 descriptors (6 to 14) at an offset, if it lies inside the region and is aligned.
func NewRing(table *Table, region uint16, offset uint32, log2 uint8) (Ring, error) {
	bytes, ok := table.Bytes(region, offset, RingSize(log2))
	if !ok {
		return Ring{}, fmt.Errorf("%w: %d descriptors at offset %d of region %d", ErrOutside, 1<<log2, offset, region)
	}
	// The mapping itself begins at a page.
	if offset%Alignment != 0 {
		return Ring{}, fmt.Errorf("%w: offset %d", ErrMisaligned, offset)
	}
	return Ring{base: unsafe.Pointer(unsafe.SliceData(bytes)), mask: 1<<log2 - 1}, nil
}

// Size is the number of descriptors.
func (r *Ring) Size() uint16 { return r.mask + 1 }

// Initialise writes the cookie, and zero to flags, head and tail: what the owner of the memory does before it announces the ring.
func (r *Ring) Initialise() {
	atomic.StoreUint32(r.word(0), Cookie)
	atomic.StoreUint32(r.word(flagsAndHead), 0)
	atomic.StoreUint32(r.word(tailWord), 0)
}

// CheckCookie checks the first word.
func (r *Ring) CheckCookie() error {
	if cookie := atomic.LoadUint32(r.word(0)); cookie != Cookie {
		return fmt.Errorf("%w: %#x", ErrCookie, cookie)
	}
	return nil
}

// Head loads the client's index. Everything written before it was published is visible afterwards.
func (r *Ring) Head() uint16 { return uint16(atomic.LoadUint32(r.word(flagsAndHead)) >> 16) }

// Tail loads the server's index, as Head.
func (r *Ring) Tail() uint16 { return uint16(atomic.LoadUint32(r.word(tailWord))) }

// SetHead publishes the client's index and everything written before. The flags in the same word are the consumer's, who may
// change them meanwhile: after a few attempts they are as they were, to the harm of nobody but a peer that keeps changing them.
func (r *Ring) SetHead(head uint16) {
	word := r.word(flagsAndHead)
	for range 16 {
		old := atomic.LoadUint32(word)
		if atomic.CompareAndSwapUint32(word, old, old&0xffff|uint32(head)<<16) {
			return
		}
	}
	atomic.StoreUint32(word, atomic.LoadUint32(word)&0xffff|uint32(head)<<16)
}

// SetTail publishes the server's index and everything written before. The two bytes behind it are padding.
func (r *Ring) SetTail(tail uint16) { atomic.StoreUint32(r.word(tailWord), uint32(tail)) }

// MaskInterrupt says that the consumer polls (true) or wants signals. What is loaded afterwards is what the peer had published
// when it could see this.
func (r *Ring) MaskInterrupt(polls bool) {
	if polls {
		atomic.OrUint32(r.word(flagsAndHead), maskInterrupt)
	} else {
		atomic.AndUint32(r.word(flagsAndHead), ^uint32(maskInterrupt))
	}
}

// Wanted says whether the consumer wants to be signalled for what was published before.
func (r *Ring) Wanted() bool {
	// An atomic that writes is a full fence on all architectures: pairs with the one in MaskInterrupt.
	return atomic.OrUint32(r.word(flagsAndHead), 0)&maskInterrupt == 0
}

// Descriptor reads the slot of an index, each half of it once.
func (r *Ring) Descriptor(index uint16) Descriptor {
	slot := r.slot(index)
	first, second := atomic.LoadUint64(&slot[0]), atomic.LoadUint64(&slot[1])
	return Descriptor{uint16(first), uint16(first >> 16), uint32(first >> 32), uint32(second)}
}

// SetLength writes flags, region and length of a slot, to be published with an index. What a client sends by says mostly what it is to say
// already: a store would take the line away from the server that has read it, and have it fetched again.
func (r *Ring) SetLength(index uint16, d Descriptor) {
	if word := &r.slot(index)[0]; *word != d.first() {
		*word = d.first()
	}
}

// SetDescriptor writes all of a slot, to be published with an index.
func (r *Ring) SetDescriptor(index uint16, d Descriptor) {
	slot := r.slot(index)
	slot[0], slot[1] = d.first(), uint64(d.Offset)
}

// slot is the two words of a slot: inside the ring, since index is masked, and aligned, since the ring is.
func (r *Ring) slot(index uint16) *[2]uint64 {
	return (*[2]uint64)(unsafe.Add(r.base, HeaderSize+uintptr(index&r.mask)*DescriptorSize))
}

// word is a word of the header, at one of 0, flagsAndHead and tailWord.
func (r *Ring) word(at uintptr) *uint32 { return (*uint32)(unsafe.Add(r.base, at)) }
