package crawler

import (
	"cmp"
	"fmt"
	"syscall"
)

// File descriptors that a crawl has open at most.
const (
	fixedFiles    = 28  // streams, poller, tree, index, socket and its clients, results
	builderFiles  = 3   // a page's folder and file, and the sync of one
	downloadFiles = 3   // a connection, another one that is tried, a body in a file
	idleFiles     = 512 // connections kept open
)

// openFiles returns the number of files that this process may have open. Go has raised it as far as
// it goes.
func openFiles() int64 {
	var limit syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &limit); err != nil || limit.Cur > 1<<30 {
		return 1 << 30
	}
	return int64(limit.Cur)
}

// fit makes do with so many open files: with fewer buffers and downloads where there are too few
// for those that were asked for. Otherwise the disk and the hosts would get the blame. What is to
// stay free on the disk follows from them, where no number is given.
func (o *Options) fit(files int64) error {
	const least = fixedFiles + builderFiles + downloadFiles + 1
	if files < least {
		return fmt.Errorf("%w: this process may open %d files (ulimit -n), at least %d are needed", ErrOptions, files, least)
	}
	free := files - fixedFiles - 1
	asked := [3]int{o.Crawlers, o.Downloads, o.Buffers}
	if int64(o.Buffers)*builderFiles+int64(o.Crawlers)*int64(o.Downloads)*downloadFiles > free {
		// A third for builders, unless fewer will do.
		o.Buffers = min(o.Buffers, max(int(free/3/builderFiles), 1))
		downloads := int((free - int64(o.Buffers)*builderFiles) / downloadFiles)
		o.Crawlers = min(o.Crawlers, downloads)
		o.Downloads = min(o.Downloads, downloads/o.Crawlers)
	}
	free -= int64(o.Buffers)*builderFiles + int64(o.Crawlers)*int64(o.Downloads)*downloadFiles
	o.idle = int(min(free+1, idleFiles))
	if now := [3]int{o.Crawlers, o.Downloads, o.Buffers}; now != asked {
		o.Log.Warn("this process may open few files (ulimit -n): fewer downloads", "files", files,
			"crawlers", o.Crawlers, "downloads of each", o.Downloads, "buffers", o.Buffers)
	}
	bytes, inodes := o.reserve()
	o.MinFree, o.MinFreeInodes = cmp.Or(o.MinFree, bytes), cmp.Or(o.MinFreeInodes, inodes)
	return nil
}
