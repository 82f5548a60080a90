package extract

import "strings"

// The work that one page may ask for, in steps that stand for at most some ten nanoseconds each.
// They are counted, not timed, so that answer and folder give the same links on any machine. A
// usual page of 16 MiB takes a tenth of them, one made of links to hosts in other scripts most.
const (
	maxSteps   = 1 << 30
	stepsToken = 16 // and one for each byte of it
	stepsTag   = 3  // more for each byte of a start tag: attributes
	stepsRef   = 32 // for each byte of a reference, besides one for each byte of the base
	stepsHost  = 128
	maxRefWork = 8 << 10 // bytes of a reference after which weburl gives up at once
)

// spend takes steps off the budget. It gives false once they are used up.
func (p *page) spend(steps int) bool {
	if p.left -= steps; p.left < 0 {
		p.Exhausted = true
	}
	return !p.Exhausted
}

// workOf returns the steps to resolve a reference. Hosts that the parser must decode or encode,
// and user names, cost it several times what the rest does.
func workOf(ref string, base int) int {
	ref = ref[:min(len(ref), maxRefWork)]
	steps := base + stepsRef*len(ref)
	if isPlain(ref) {
		return steps
	}
	if host := authority(ref); !isPlain(host) {
		steps += stepsHost * len(host)
	}
	return steps
}

// mostWork returns at least as many steps as workOf does for n references of so many bytes
// together: of a usual page each need not be looked at.
func mostWork(bytes, n, base int) int { return n*base + (stepsRef+stepsHost)*bytes }

// authority returns what may be user name, host and port of a reference, "" of a mere path.
func authority(ref string) string {
	ref = strings.TrimLeft(ref, space)
	slashes, scheme := strings.CutPrefix(strings.TrimLeftFunc(ref, isScheme), ":")
	if !scheme && len(slashes) < len(ref) {
		return "" // a mere path
	}
	host := strings.TrimLeft(slashes, `/\`+"\t\n\r")
	if !scheme && len(slashes)-len(host) < 2 {
		return ""
	}
	if i := strings.IndexAny(host, `/\?#`); i >= 0 {
		host = host[:i]
	}
	return host
}

func isScheme(c rune) bool {
	return 'a' <= c|0x20 && c|0x20 <= 'z' || '0' <= c && c <= '9' || c == '+' || c == '-' || c == '.'
}

// isPlain reports whether a host, or a reference and its host with it, costs no more than a path.
func isPlain(s string) bool {
	return !strings.ContainsAny(s, "%@") && !hasWide(s) && !strings.Contains(s, "xn--")
}
