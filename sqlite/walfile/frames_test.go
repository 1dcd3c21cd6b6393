package walfile

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"testing"
)

// TestFramesAreThoseOfTheWAL: the frames that SQLite has written, from the beginning and from every commit on, for every size of a page.
// Also for more frames than are read at a time.
func TestFramesAreThoseOfTheWAL(t *testing.T) {
	for _, size := range []int{512, 4096, 1 << 16} {
		t.Run(fmt.Sprint(size), func(t *testing.T) {
			path, c := shared(t, size)
			c.exec("insert into t values (randomblob(?))", 3*chunkBytes)
			c.exec("insert into t values (2)")
			d := live(t, path)
			h := mustHeader(t, d)
			file := read(t, path+"-wal")
			if d.PageSize() != uint32(size) || h.PageSize != uint32(size) || len(file) != 32+int(h.Frame)*(24+size) {
				t.Fatalf("pages of %d bytes, of %d by the index; %d bytes for %d frames", d.PageSize(), h.PageSize, len(file), h.Frame)
			}
			sums := map[uint32][2]uint32{0: {}}
			n := uint32(0)
			page := make([]byte, size)
			err := d.Frames(0, [2]uint32{1, 2}, h, func(f Frame, content []byte) error {
				n++
				head := file[32+int(n-1)*(24+size):]
				be := binary.BigEndian
				if f != (Frame{n, be.Uint32(head), be.Uint32(head[4:])}) || !bytes.Equal(content, head[24:24+size]) {
					return fmt.Errorf("frame %d is %v", n, f)
				}
				if err := d.ReadFrame(n, page); err != nil || !bytes.Equal(page, content) {
					return fmt.Errorf("frame %d reads as another, %v", n, err)
				}
				if f.Commit != 0 {
					sums[n] = [2]uint32{be.Uint32(head[16:]), be.Uint32(head[20:])}
				}
				return nil
			})
			if err != nil || n != h.Frame || len(d.buf) > chunkBytes {
				t.Fatalf("%d of %d frames, %d bytes at a time, %v", n, h.Frame, len(d.buf), err)
			}
			if sums[n] != h.Sum || len(sums) < 4 {
				t.Fatalf("%d commits", len(sums))
			}
			for from, sum := range sums {
				again := mustOpen(t, path) // with no buffer yet
				n := from
				if err := again.Frames(from, sum, h, func(f Frame, _ []byte) error {
					if n++; f.Number != n {
						return fmt.Errorf("frame %d is number %d", n, f.Number)
					}
					return nil
				}); err != nil || n != h.Frame {
					t.Errorf("from frame %d to %d of %d: %v", from, n, h.Frame, err)
				}
			}
		})
	}
}

// TestFramesOfBothByteOrders: a WAL has its checksums in the order of the machine that began it.
func TestFramesOfBothByteOrders(t *testing.T) {
	for _, order := range []binary.ByteOrder{binary.LittleEndian, binary.BigEndian} {
		w := newWAL(order, 512, "saltsalt").frame(1, 0, 'a').frame(2, 2, 'b')
		d := w.lone(t, 2)
		n := 0
		if err := d.Frames(0, [2]uint32{}, w.header(2, 2), func(Frame, []byte) error { n++; return nil }); err != nil || n != 2 {
			t.Errorf("%v: %d frames, %v", order, n, err)
		}
		if h, err := d.Recover(Header{}); err != nil || h != w.header(2, 2) {
			t.Errorf("%v: recovered %v, %v", order, h, err)
		}
	}
}

// TestDamagedFramesAreNotTold: each part of the WAL is compared with what the index says. The frames before the damage
// were told, and are void.
func TestDamagedFramesAreNotTold(t *testing.T) {
	w := newWAL(binary.LittleEndian, 512, "saltsalt").frame(1, 0, 'a').frame(2, 2, 'b').frame(1, 2, 'c')
	at := func(n int) int { return 32 + n*(24+512) }
	flip := func(i int) func(b []byte) []byte { return func(b []byte) []byte { b[i] ^= 1; return b } }
	h := w.header(3, 2)
	wrong := h
	wrong.Sum[1]++
	for name, c := range map[string]struct {
		damage func(b []byte) []byte
		h      Header
		told   int
	}{
		"the magic number":          {flip(3), h, 0}, // says the other byte order
		"another magic number":      {flip(0), h, 0},
		"the version":               {flip(7), h, 0},
		"the page size":             {flip(10), h, 0},
		"a salt":                    {flip(16), h, 0},
		"the header's checksum":     {flip(24), h, 0},
		"its other half":            {flip(28), h, 0},
		"a frame's page number":     {flip(at(1) + 3), h, 1},
		"its commit":                {flip(at(1) + 7), h, 1},
		"its salt":                  {flip(at(1) + 8), h, 1},
		"its checksum":              {flip(at(1) + 16), h, 1},
		"the checksum's half":       {flip(at(1) + 20), h, 1},
		"its page":                  {flip(at(1) + 24), h, 1},
		"the last byte":             {flip(at(3) - 1), h, 2},
		"a WAL that is too short":   {func(b []byte) []byte { return b[:len(b)-1] }, h, 0},
		"the checksum of the index": {func(b []byte) []byte { return b }, wrong, 3},
	} {
		d := w.lone(t, 2)
		write(t, d.path+"-wal", c.damage(bytes.Clone(w.bytes)))
		told := 0
		if err := d.Frames(0, [2]uint32{}, c.h, func(Frame, []byte) error { told++; return nil }); !errors.Is(err, ErrDamaged) || told != c.told {
			t.Errorf("%s: %d frames, %v", name, told, err)
		}
	}
	d := w.lone(t, 2)
	if err := d.Frames(1, [2]uint32{1, 2}, h, func(Frame, []byte) error { return nil }); !errors.Is(err, ErrDamaged) {
		t.Errorf("from a frame with another checksum: %v", err)
	}
	stop := errors.New("stop")
	if err := d.Frames(0, [2]uint32{}, h, func(Frame, []byte) error { return stop }); !errors.Is(err, stop) {
		t.Errorf("an error of who is told: %v", err)
	}
	write(t, d.path+"-wal", w.bytes[:31])
	if err := d.Frames(0, [2]uint32{}, h, func(Frame, []byte) error { return nil }); err == nil || errors.Is(err, ErrDamaged) {
		t.Errorf("a WAL without a header: %v", err)
	}
	if err := os.Remove(d.path + "-wal"); err != nil {
		t.Fatal(err)
	}
	if err := mustOpen(t, d.path).Frames(0, [2]uint32{}, h, nil); !errors.Is(err, ErrBusy) {
		t.Errorf("no WAL: %v", err)
	}
}

// TestRecoverFindsTheLastCommit: of a WAL that ends anywhere, or in which something else lies behind it.
func TestRecoverFindsTheLastCommit(t *testing.T) {
	w := newWAL(binary.LittleEndian, 512, "saltsalt").frame(1, 0, 'a').frame(3, 3, 'b').frame(2, 0, 'c').frame(4, 4, 'd')
	const frame = 24 + 512
	before := newWAL(binary.LittleEndian, 512, "formerly").frame(1, 1, 'x')
	none := Header{Pages: 2, PageSize: 512}
	begun := w.header(0, 2) // it has salts and a checksum to go on from
	for name, c := range map[string]struct {
		wal  []byte
		want Header
	}{
		"nothing":                     {nil, none},
		"less than a header":          {w.bytes[:31], none},
		"a header":                    {w.bytes[:32], begun},
		"a header that is damaged":    {append([]byte{0}, w.bytes[1:]...), none},
		"a frame without its commit":  {w.bytes[:32+frame], begun},
		"almost a commit":             {w.bytes[:32+2*frame-1], begun},
		"a commit":                    {w.bytes[:32+2*frame], w.header(2, 3)},
		"half of another one":         {w.bytes[:32+3*frame], w.header(2, 3)},
		"almost another one":          {w.bytes[:32+4*frame-1], w.header(2, 3)},
		"two commits":                 {w.bytes, w.header(4, 4)},
		"frames of the WAL before it": {append(bytes.Clone(w.bytes), before.bytes[32:]...), w.header(4, 4)},
	} {
		d := w.lone(t, 2)
		write(t, d.path+"-wal", c.wal)
		if got, err := d.Recover(Header{}); err != nil || got != c.want {
			t.Errorf("%s: %+v, want %+v, %v", name, got, c.want, err)
		}
	}
	d := w.lone(t, 2)
	if err := os.Remove(d.path + "-wal"); err != nil {
		t.Fatal(err)
	}
	if got, err := mustOpen(t, d.path).Recover(Header{}); err != nil || got != none {
		t.Errorf("no WAL: %+v, %v", got, err)
	}
}

// TestRecoverGoesOn: behind what an earlier call has found if it is the same WAL, and from the beginning if it is not.
func TestRecoverGoesOn(t *testing.T) {
	w := newWAL(binary.LittleEndian, 512, "saltsalt")
	d := w.lone(t, 2)
	begun, err := d.Recover(Header{})
	if err != nil || begun != w.header(0, 2) {
		t.Fatal(begun, err)
	}
	write(t, d.path, aDatabase(512, 3))
	if h, err := d.Recover(begun); err != nil || h != w.header(0, 3) {
		t.Errorf("no commit yet, and a larger file: %v, %v", h, err)
	}
	w.frame(1, 2, 'a')
	write(t, d.path+"-wal", w.bytes)
	before, err := d.Recover(begun)
	if err != nil || before.Frame != 1 {
		t.Fatal(before, err)
	}
	if again, err := d.Recover(before); err != nil || again != before {
		t.Errorf("nothing new: %v, %v", again, err)
	}
	w.frame(2, 0, 'b').frame(3, 3, 'c')
	unread := bytes.Clone(w.bytes)
	unread[32+24] ^= 1 // in what was read before
	write(t, d.path+"-wal", unread)
	if h, err := d.Recover(before); err != nil || h != w.header(3, 3) {
		t.Errorf("two frames more: %v, %v", h, err)
	}
	if h, err := d.Recover(Header{}); err != nil || h.Frame != 0 {
		t.Errorf("it has not read the damage: %v, %v", h, err)
	}
	anew := newWAL(binary.LittleEndian, 512, "othersalt").frame(1, 1, 'x')
	write(t, d.path+"-wal", anew.bytes)
	if h, err := d.Recover(before); err != nil || h != anew.header(1, 1) {
		t.Errorf("another WAL: %v, %v", h, err)
	}
	before = w.header(1, 2)
	before.PageSize = 1024
	write(t, d.path+"-wal", w.bytes)
	if h, err := d.Recover(before); err != nil || h != w.header(3, 3) {
		t.Errorf("from another page size: %v, %v", h, err)
	}
}
