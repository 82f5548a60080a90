package iut_test

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"

	"urltree/iut"
)

// A link that somebody puts into the tree must lead nowhere.
func TestLinksLeadNowhere(t *testing.T) {
	p := page(1) // https://example.org/d1/p1
	for _, tt := range []struct{ name, link string }{
		{"scheme", "pr-https"},
		{"label", "pr-https/do-example"},
		{"host", "pr-https/do-example/do-org"},
		{"segment", "pr-https/do-example/do-org/dr-d1"},
		{"page", "pr-https/do-example/do-org/dr-d1/dr-p1"},
		{"body", "pr-https/do-example/do-org/dr-d1/dr-p1/content.html"},
		{"facts", "pr-https/do-example/do-org/dr-d1/dr-p1/source.txt"},
		{"tmp", "tmp"},
		{"seeds", "seeds.txt"},
		{"new FORMAT", "FORMAT.new"},
	} {
		for _, walking := range []bool{false, true} {
			for _, present := range []bool{false, true} {
				t.Run(fmt.Sprintf("%s walking=%v present=%v", tt.name, walking, present), func(t *testing.T) {
					root, outside := t.TempDir(), t.TempDir()
					open(t, root).Close()
					d := disk(t, root, iut.SyncFiles)
					if walking {
						d.WalkNames()
					}
					link := root + "/" + tt.link
					put(t, root+"/"+tt.link+"/x", "") // makes the folders above
					if err := os.RemoveAll(link); err != nil {
						t.Fatal(err)
					}
					target := outside + "/target"
					isFile := strings.Contains(tt.link, ".")
					if present && isFile {
						put(t, target, "precious")
					} else if present {
						put(t, target+"/dr-d1/dr-p1/content.html", "precious")
						put(t, target+"/content.html", "precious")
					}
					if err := os.Symlink(target, link); err != nil {
						t.Fatal(err)
					}
					before := snapshot(t, outside)
					tree, err := iut.Open(root, iut.Options{FS: d, Identity: &rules})
					if err == nil {
						defer tree.Close()
						q := *p
						if err := useTemp(tree, &q); err != nil {
							t.Error(err)
						}
						_, err1 := tree.Store(&q)
						_, err2 := tree.Store(p)
						for _, err := range []error{err1, err2} {
							if err != nil && !errors.Is(err, iut.ErrPage) {
								t.Errorf("Store: %v, want nil or ErrPage", err)
							}
						}
						addSeeds(tree, []string{p.URL})
						tree.SetLinks(iut.LinkOptions{Scope: "x"})
						if _, body, err := tree.Load(iut.Facts{URL: p.URL}); err == nil && string(body) != string(p.Body) {
							t.Errorf("Load reads %q through a link", body)
						}
						tree.RemoveTorn(iut.Facts{URL: p.URL}, false)
						tree.Sync()
					} else if !errors.Is(err, iut.ErrDisk) && !errors.Is(err, iut.ErrTree) {
						t.Errorf("Open: %v, want ErrDisk or ErrTree", err)
					}
					if after := snapshot(t, outside); after != before {
						t.Errorf("outside was\n%sand is\n%s", before, after)
					}
				})
			}
		}
	}
}

// Links within the tree are not followed either.
func TestLinksToOtherPages(t *testing.T) {
	for _, walking := range []bool{false, true} {
		for _, tt := range []struct{ name, link, target string }{
			{"body", "/content.html", "../dr-p4/content.html"},
			{"facts", "/source.txt", "../dr-p4/source.txt"},
			{"page", "", "dr-p4"},
		} {
			t.Run(fmt.Sprintf("%s walking=%v", tt.name, walking), func(t *testing.T) {
				root := t.TempDir()
				d := disk(t, root, iut.SyncNone)
				if walking {
					d.WalkNames()
				}
				tree := open(t, root, onFS(d))
				p, other := page(1), page(4)
				store(t, tree, other)
				link := folder(t, tree, p.URL) + tt.link
				put(t, link+"/x", "")
				if err := errors.Join(os.RemoveAll(link), os.Symlink(tt.target, link)); err != nil {
					t.Fatal(err)
				}
				if _, _, err := tree.Load(iut.Facts{URL: p.URL}); !errors.Is(err, iut.ErrTorn) && !errors.Is(err, fs.ErrNotExist) {
					t.Errorf("Load: %v, want ErrTorn or fs.ErrNotExist", err)
				} else if errors.Is(err, iut.ErrDefect) {
					t.Errorf("Load read through a link: %v", err)
				}
				if _, err := tree.Store(p); err == nil {
					requirePage(t, tree, p)
				} else if !errors.Is(err, iut.ErrPage) {
					t.Errorf("Store: %v, want nil or ErrPage", err)
				}
				requirePage(t, tree, other)
			})
		}
	}
}

// snapshot returns the names and contents of all files below a folder.
func snapshot(t *testing.T, root string) string {
	t.Helper()
	var b strings.Builder
	err := fs.WalkDir(os.DirFS(root), ".", func(name string, e fs.DirEntry, err error) error {
		if err != nil || e.IsDir() {
			fmt.Fprintln(&b, name)
			return err
		}
		fmt.Fprintln(&b, name, read(t, root+"/"+name))
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return b.String()
}

func TestDiskNames(t *testing.T) {
	root := t.TempDir()
	put(t, root+"/below/x", "")
	for _, walking := range []bool{false, true} {
		d := disk(t, root+"/below", iut.SyncFiles)
		if walking {
			d.WalkNames()
		}
		for _, name := range []string{"..", "../x", "a/../../x", "/etc", "", "a//b", "./x", "x/"} {
			_, err1 := d.Open(name, os.O_RDWR|os.O_CREATE)
			_, err2 := d.List(name)
			_, err3 := d.Stat(name)
			for _, err := range []error{err1, err2, err3, d.Mkdir(name), d.Remove(name), d.Rename("x", name), d.Rename(name, "y"), d.SyncDir(name)} {
				if err == nil {
					t.Errorf("the name %q is accepted", name)
				}
			}
		}
	}
	if got := names(t, root); got != "\n/below\n/below/x\n" {
		t.Errorf("the folder is now %s", got)
	}
}

// A FIFO in the place of a file must not stop the crawl.
func TestFIFO(t *testing.T) {
	for _, name := range []string{"content.html", "source.txt"} {
		t.Run(name, func(t *testing.T) {
			tree := open(t, t.TempDir())
			p := page(1)
			store(t, tree, p)
			file := folder(t, tree, p.URL) + "/" + name
			if err := errors.Join(os.Remove(file), syscall.Mkfifo(file, 0o666)); err != nil {
				t.Fatal(err)
			}
			if _, _, err := tree.Load(iut.Facts{URL: p.URL}); !errors.Is(err, iut.ErrTorn) {
				t.Errorf("Load: %v, want ErrTorn", err)
			}
			if _, err := tree.Store(p); err != nil && !errors.Is(err, iut.ErrPage) {
				t.Errorf("Store: %v, want nil or ErrPage", err)
			}
		})
	}
}

// TestPermissions has folders of the tree that may not be written, and not be read. Root, whom that
// does not bind, lets another user run it.
func TestPermissions(t *testing.T) {
	if os.Getuid() == 0 {
		asNobody(t)
		return
	}
	tree := open(t, t.TempDir())
	store(t, tree, page(0))
	dir := folder(t, tree, "https://example.org/d0")
	if err := os.Chmod(dir, 0o500); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.Chmod(dir, 0o700) })
	if _, err := tree.Store(page(3)); !errors.Is(err, iut.ErrDisk) || !errors.Is(err, fs.ErrPermission) {
		t.Errorf("Store: %v, want ErrDisk and fs.ErrPermission", err)
	}
	requirePage(t, tree, page(0))
	if err := os.Chmod(dir, 0); err != nil {
		t.Fatal(err)
	}
	if _, _, err := tree.Load(iut.Facts{URL: page(0).URL}); !errors.Is(err, iut.ErrDisk) {
		t.Errorf("Load: %v, want ErrDisk", err)
	}
}

// asNobody runs the test that calls it once more, in a process of its own whose user has no rights.
func asNobody(t *testing.T) {
	t.Helper()
	const nobody = 65534
	dir, err := os.MkdirTemp("", "nobody") // those of t are closed to other users, as is that of this program
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	program, err := os.ReadFile(os.Args[0])
	err = errors.Join(err, os.WriteFile(dir+"/program", program, 0o755), os.Chmod(dir, 0o777))
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(dir+"/program", "-test.v", "-test.run", "^"+t.Name()+"$")
	cmd.Dir, cmd.Env = dir, append(os.Environ(), "TMPDIR="+dir)
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: nobody, Gid: nobody}}
	if out, err := cmd.CombinedOutput(); err != nil || !strings.Contains(string(out), "--- PASS: "+t.Name()+" ") {
		t.Errorf("as user %d: %v\n%s", nobody, err, out)
	}
}
