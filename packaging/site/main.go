// Site serves a small web on a loopback address, for packaging/day.sh: it prints the URL of its
// first page and runs until standard input ends.
package main

import (
	"fmt"
	"io"
	"log"
	"os"

	"urltree/internal/testweb"
)

func main() {
	web := testweb.New(testweb.Options{Hosts: 1, Pages: 300, Seed: 1, Redirects: .03, Errors: .02, Images: .02, Private: .02})
	if err := web.Start(0); err != nil {
		log.Fatal(err)
	}
	defer web.Stop()
	fmt.Println(web.Seeds()[0])
	_, _ = io.Copy(io.Discard, os.Stdin)
}
