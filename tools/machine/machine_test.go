package machine

import (
	"os"
	"runtime"
	"testing"
)

func TestSelf(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("there is no /proc")
	}
	if m := Here(); m.Cores < 1 || m.Kernel == "" || m.Go == "" {
		t.Errorf("%+v", m)
	}
	peak := Watch(os.Getpid())
	anon, err := Anon(os.Getpid())
	if err != nil || anon < 1<<16 {
		t.Errorf("own memory: %d, %v", anon, err)
	}
	if _, _, err := CPU(os.Getpid()); err != nil {
		t.Error(err)
	}
	if n := peak(); n < 0 {
		t.Errorf("peak: %d", n)
	}
	if _, _, err := CPU(-1); err == nil {
		t.Error("no process has the number -1")
	}
}
