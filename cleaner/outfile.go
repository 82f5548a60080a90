package cleaner

import (
	"bufio"
	"context"
	"errors"
	"os"
	"syscall"

	"urltree/internal/disk"
	"urltree/iut"
)

// An outFile is a result file that is being written. It ends by commit or discard.
type outFile struct {
	name   string
	stream *os.File                // nil: the file is whole
	whole  *disk.File              // nil: the file is a stream
	ours   func(begin []byte) bool // reports whether a file may be replaced by this one
	w      *bufio.Writer
	dirty  int  // bytes since the last sync
	gone   bool // nobody reads the stream any more
}

// syncEach is how many bytes are synced at a time: how long that takes does not grow with the file.
const syncEach = 64 << 20

const bufferBytes = 256 << 10

func createFile(watch *disk.Watch, name string, ours func(begin []byte) bool) (*outFile, error) {
	file, err := watch.Create(name)
	if err != nil {
		return nil, iut.DiskError("write "+name, err)
	}
	return &outFile{name: name, whole: file, ours: ours, w: bufio.NewWriterSize(file, bufferBytes)}, nil
}

// createRes begins res.txt. A FIFO must have a reader, see openStream.
func (f Files) createRes(watch *disk.Watch) (*outFile, error) {
	if !f.Stream {
		return createFile(watch, f.Res, beginsRes)
	}
	file, err := openStream(f.Res)
	if err != nil {
		return nil, iut.DiskError("write "+f.Res, err)
	}
	return &outFile{name: f.Res, stream: file, w: bufio.NewWriterSize(file, bufferBytes)}, nil
}

// Write buffers b. What a reader of a stream that has left does not take is dropped.
func (o *outFile) Write(b []byte) (int, error) {
	if o.gone {
		return len(b), nil
	}
	n, err := o.w.Write(b)
	if o.dirty += n; err == nil && o.whole != nil && o.dirty >= syncEach {
		o.dirty = 0
		err = o.whole.Sync()
	}
	if o.left(err) {
		return len(b), nil
	}
	return n, iut.DiskError("write "+o.name, err)
}

// left reports whether err says that the reader of a stream has left.
func (o *outFile) left(err error) bool {
	o.gone = o.gone || o.whole == nil && errors.Is(err, syscall.EPIPE)
	return o.gone
}

// commit makes the file durable and gives it its name. If it fails, or ctx ends first, the older
// file stays, as does one that somebody else has put there meanwhile.
func (o *outFile) commit(ctx context.Context) error {
	err := o.w.Flush()
	if o.left(err) {
		err = nil
	}
	cause := context.Cause(ctx)
	switch {
	case o.whole == nil:
		err = errors.Join(err, o.stream.Close())
	case err != nil:
		err = errors.Join(err, o.whole.Discard())
	case cause != nil:
		return errors.Join(cause, o.whole.Discard())
	default:
		if err := replaceable(o.name, o.ours); err != nil {
			return errors.Join(err, o.whole.Discard())
		}
		err = o.whole.Commit()
	}
	return iut.DiskError("write "+o.name, err)
}

// discard closes and removes a file after an error that is not its own.
func (o *outFile) discard() error {
	if o.whole == nil {
		return o.stream.Close()
	}
	return o.whole.Discard()
}

// writeWhole writes a small file in the same way.
func writeWhole(ctx context.Context, watch *disk.Watch, name string, ours func(begin []byte) bool, text []byte) error {
	o, err := createFile(watch, name, ours)
	if err != nil {
		return err
	}
	if _, err := o.Write(text); err != nil {
		return errors.Join(err, o.discard())
	}
	return o.commit(ctx)
}
