package cleaner

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"urltree/internal/testsite"
	"urltree/iut"
)

// TestFilesKinds: regular files and streams may be written to, nothing else.
func TestFilesKinds(t *testing.T) {
	dir := t.TempDir()
	at := func(name string) string { return filepath.Join(dir, name) }
	socket, err := net.Listen("unix", at("socket"))
	if err != nil {
		t.Fatal(err)
	}
	defer socket.Close()
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	defer w.Close()
	if err := errors.Join(os.WriteFile(at("file"), nil, 0o666), os.Symlink("file", at("link")), os.Symlink("nowhere", at("dangling")),
		os.Symlink("/dev/stdout", at("stdout")), syscall.Mkfifo(at("fifo"), 0o666), os.Mkdir(at("linked"), 0o777), os.Symlink("../file", at("linked/file2"))); err != nil {
		t.Fatal(err)
	}
	stream := Files{Res2: "res2.txt", Statistics: "statistics.txt", Hourly: "hourly_statistics.txt", Stream: true}
	for _, tt := range []struct {
		output string
		stream bool
		err    string // "": none
	}{
		{at("file"), false, ""},
		{at("absent"), false, ""},
		{at("fifo"), true, ""},
		{"/dev/stdout", true, ""},
		{"/dev//stderr", true, ""},
		{fdName(w), true, ""},
		{fdName(r), true, "for reading only"},
		{"/dev/fd/9999", true, "bad file descriptor"},
		{"/dev/null", false, "a device"},
		{at("link"), false, "a link"},
		{at("dangling"), false, "a link"},
		{at("stdout"), false, "a link"},
		{at("socket"), false, "a socket"},
		{dir, false, "a folder"},
		{at("linked/file"), false, "linked/file2 is a link"},
	} {
		f, err := FilesFor("", tt.output)
		if tt.err != "" {
			if err == nil || !strings.Contains(err.Error(), tt.err) {
				t.Errorf("%s: %+v, %v, want the error %q", tt.output, f, err, tt.err)
			}
			continue
		}
		stream.Res = tt.output
		if err != nil || f.Stream != tt.stream || tt.stream && f != stream {
			t.Errorf("%s: %+v, %v", tt.output, f, err)
		}
	}
}

func fdName(f *os.File) string { return fmt.Sprintf("/dev/fd/%d", f.Fd()) }

// TestReplaceable: what is replaced begins as the file that replaces it, or is empty.
func TestReplaceable(t *testing.T) {
	s := testsite.Small(t)
	for _, output := range []string{"res.txt", "A.tsv"} {
		t.Run(output, func(t *testing.T) {
			f, err := FilesFor("", filepath.Join(t.TempDir(), output))
			if err != nil {
				t.Fatal(err)
			}
			testReplaceable(t, s, f)
		})
	}
}

func testReplaceable(t *testing.T, s *testsite.Site, f Files) {
	if err := Clean(context.Background(), Steps{Index: s.Index, Files: f}); err != nil {
		t.Fatal(err)
	}
	made := map[string]string{}
	for _, name := range f.Names() {
		made[name] = testsite.Read(t, name)
	}
	if err := f.Replaceable(); err != nil {
		t.Errorf("what was just made: %v", err)
	}
	for i, name := range f.Names() {
		other := f.Names()[(i+1)%4]
		for _, text := range []string{
			"mine", "\n", "http://a.org/\n", "http://a.org/\thttp://b.org/\n", made[other], " " + made[name], strings.Repeat("\t", 11) + "00000000\n",
		} {
			if err := os.WriteFile(name, []byte(text), 0o666); err != nil {
				t.Fatal(err)
			}
			if err := f.Replaceable(); err == nil || !strings.Contains(err.Error(), name) || errors.Is(err, iut.ErrDisk) {
				t.Errorf("%s with %.40q: %v", name, text, err)
			}
			err := Clean(context.Background(), Steps{Index: s.Index, Files: f})
			if got := testsite.Read(t, name); err == nil || got != text {
				t.Errorf("%s with %.40q was replaced by %.40q, %v", name, text, got, err)
			}
		}
		if err := os.WriteFile(name, nil, 0o666); err != nil {
			t.Fatal(err)
		}
		if err := Clean(context.Background(), Steps{Index: s.Index, Files: f}); err != nil {
			t.Errorf("%s is empty: %v", name, err)
		}
	}
}

// TestStream: a FIFO gets the lines of res.txt in one pass, and stays what it is; a reader that
// leaves keeps nobody from the other files.
func TestStream(t *testing.T) {
	s := testsite.Small(t)
	t.Chdir(t.TempDir())
	plain := filesIn(t, t.TempDir())
	if err := writeResults(context.Background(), s.Index, plain); err != nil {
		t.Fatal(err)
	}
	fifo := filepath.Join(t.TempDir(), "fifo")
	if err := syscall.Mkfifo(fifo, 0o666); err != nil {
		t.Fatal(err)
	}
	f, err := FilesFor(s.Root, fifo)
	if err != nil {
		t.Fatal(err)
	}
	for _, whole := range []bool{true, false} {
		got := make(chan string, 1)
		go func() {
			in, err := os.Open(fifo)
			var b []byte
			if err == nil && whole {
				b, err = io.ReadAll(in)
			}
			got <- string(b)
			if err = errors.Join(err, in.Close()); err != nil {
				t.Error(err)
			}
		}()
		if err := errors.Join(Clean(context.Background(), Steps{Index: s.Index, Files: f}), os.Remove(f.Res2)); err != nil {
			t.Fatal(err)
		}
		if text := testsite.Read(t, f.Statistics); !strings.Contains(text, ": holds\n") || strings.Contains(text, "NOT HOLD") {
			t.Error(text)
		}
		if text := <-got; whole && text != testsite.Read(t, plain.Res) {
			t.Errorf("the reader got %q", text)
		}
	}
	// Without a reader it does not wait for ever.
	synctest.Test(t, func(t *testing.T) {
		start := time.Now()
		if o, err := f.createRes(nil); err == nil || !errors.Is(err, iut.ErrDisk) || !strings.Contains(err.Error(), "for reading within 10s") {
			t.Errorf("a FIFO without a reader: %v, %v", o, err)
		}
		if waited := time.Since(start); waited < readerPatience || waited > 2*readerPatience {
			t.Errorf("waited %s for a reader, want %s", waited, readerPatience)
		}
	})
	// A reader that has surely left before the first byte is written.
	left := make(chan error, 1)
	go func() {
		in, err := os.Open(fifo)
		left <- errors.Join(err, in.Close())
	}()
	o, err := f.createRes(nil)
	if err = errors.Join(err, <-left); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if n, err := o.Write(make([]byte, 2*bufferBytes)); n != 2*bufferBytes || err != nil {
			t.Errorf("%d bytes written without a reader, %v", n, err)
		}
	}
	if err := o.commit(context.Background()); err != nil {
		t.Error(err)
	}
	if info, err := os.Lstat(fifo); err != nil || info.Mode().Type() != os.ModeNamedPipe {
		t.Errorf("the FIFO is %v, %v", info.Mode(), err)
	}
	if around, err := filepath.Glob(filepath.Join(filepath.Dir(fifo), "*")); err != nil || len(around) != 1 {
		t.Errorf("beside the FIFO: %q, %v", around, err)
	}
}
