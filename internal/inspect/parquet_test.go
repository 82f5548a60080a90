package inspect

import (
	"bytes"
	"cmp"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	gocmp "github.com/google/go-cmp/cmp"
	"github.com/parquet-go/parquet-go"

	"urltree/storage/record"
)

var parquetFields = []field{{"url", word}, {"text", document}, {"bytes", integer}, {"rank", decimal}, {"time", moment}}

// parquetRow returns a row in which n decides what is nothing, and what a reader returns of it.
func parquetRow(rnd *rand.Rand, n int) ([]cell, []any) {
	row := []cell{text("u" + randomText(rnd)), whole(randomText(rnd)), number(rnd.Int64() - rnd.Int64()), float(rnd.NormFloat64()), at(1 + rnd.Int64N(1<<38))}
	want := []any{clean(row[0].text), row[1].text, row[2].number, row[3].real, row[4].number * 1e6}
	for k := range row {
		if n>>k%3 == 0 {
			row[k], want[k] = cell{}, nil
		}
	}
	return row, want
}

func parquetOf(t *testing.T, rows [][]cell) []byte {
	t.Helper()
	var out bytes.Buffer
	f := newParquetFile(&out, "a program", parquetFields)
	for _, row := range rows {
		if err := f.row(row...); err != nil {
			t.Fatal(err)
		}
	}
	if err := f.end(); err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}

// read returns the rows of a Parquet file as another program reads them.
func read(t *testing.T, data []byte) (file *parquet.File, rows [][]any) {
	t.Helper()
	file, err := parquet.OpenFile(bytes.NewReader(data), int64(len(data)))
	if err != nil {
		t.Fatal(err)
	}
	for _, group := range file.RowGroups() {
		in := group.Rows()
		some := make([]parquet.Row, 100)
		for {
			n, err := in.ReadRows(some)
			for _, row := range some[:n] {
				var values []any
				for _, v := range row {
					switch {
					case v.IsNull():
						values = append(values, nil)
					case v.Kind() == parquet.ByteArray:
						values = append(values, string(v.ByteArray()))
					case v.Kind() == parquet.Double:
						values = append(values, v.Double())
					default:
						values = append(values, v.Int64())
					}
				}
				rows = append(rows, values)
			}
			if err == io.EOF {
				break
			}
			if err != nil {
				t.Fatal(err)
			}
		}
		if err := in.Close(); err != nil {
			t.Fatal(err)
		}
	}
	return file, rows
}

// TestParquet: another program reads the rows that were written, their types and what is nothing,
// however large and however many they are, and the same rows are the same bytes.
func TestParquet(t *testing.T) {
	rnd := rand.New(rand.NewPCG(3, 4))
	large := func(n int) []cell {
		return []cell{text("large"), whole(strings.Repeat("äöü ", n/7)), {}, {}, {}}
	}
	var many, some [][]cell
	var wantMany, wantSome [][]any
	for n := range parquetRows + 1 { // one more than a group has
		row, want := parquetRow(rnd, n)
		many, wantMany = append(many, row), append(wantMany, want)
	}
	for n := range 100 {
		row, want := parquetRow(rnd, n)
		if n%10 == 0 {
			row = large(5 << 20)
			want = []any{"large", row[1].text, nil, nil, nil}
		}
		some, wantSome = append(some, row), append(wantSome, want)
	}
	none := []any{nil, nil, nil, nil, nil}
	for _, tt := range []struct {
		name   string
		rows   [][]cell
		want   [][]any
		groups int
	}{
		{"empty", nil, nil, 0},
		{"nothing", [][]cell{make([]cell, 5), make([]cell, 5)}, [][]any{none, none}, 1},
		{"many", many, wantMany, 2},
		{"large", some, wantSome, 2},
	} {
		data := parquetOf(t, tt.rows)
		if !bytes.Equal(data, parquetOf(t, tt.rows)) {
			t.Errorf("%s: other bytes the second time", tt.name)
		}
		file, rows := read(t, data)
		const schema = `message urltree {
	optional binary url (STRING);
	optional binary text (STRING);
	optional int64 bytes (INT(64,true));
	optional double rank;
	optional int64 time (TIMESTAMP(isAdjustedToUTC=true,unit=MICROS));
}`
		if got := file.Schema().String(); got != schema {
			t.Errorf("%s: schema %s, want %s", tt.name, got, schema)
		}
		if !slices.EqualFunc(tt.want, rows, slices.Equal[[]any]) {
			t.Errorf("%s: %.2000s", tt.name, gocmp.Diff(tt.want, rows))
		}
		for _, group := range file.RowGroups() {
			checkPages(t, group)
		}
		if n := len(file.RowGroups()); n != tt.groups || file.NumRows() != int64(len(tt.rows)) {
			t.Errorf("%s: %d groups, %d rows, want %d and %d", tt.name, n, file.NumRows(), tt.groups, len(tt.rows))
		}
	}
}

// checkPages fails the test if a page goes on behind the row by which it is full.
func checkPages(t *testing.T, group parquet.RowGroup) {
	t.Helper()
	for k, column := range group.ColumnChunks() {
		pages := column.Pages()
		for {
			page, err := pages.ReadPage()
			if err == io.EOF {
				break
			}
			if err != nil {
				t.Fatal(err)
			}
			if n := page.NumValues(); page.Size() > parquetPage+parquetPage/2 && n > 12 {
				t.Errorf("column %d: a page of %d bytes, in %d values", k, page.Size(), n)
			}
			parquet.Release(page)
		}
		if err := pages.Close(); err != nil {
			t.Fatal(err)
		}
	}
}

// TestParquetStatistics: a reader may pass over a group by its least and greatest numbers.
func TestParquetStatistics(t *testing.T) {
	numbers := []int64{7, -3, 12}
	var rows [][]cell
	for _, n := range numbers {
		rows = append(rows, []cell{text("a"), {}, number(n), {}, at(n + 10)}, make([]cell, 5))
	}
	var out bytes.Buffer
	f := newParquetFile(&out, "", parquetFields)
	for _, row := range rows {
		if err := f.row(row...); err != nil {
			t.Fatal(err)
		}
	}
	f.group()
	if err := cmp.Or(f.row(cell{}, cell{}, number(5), cell{}, at(15)), f.end()); err != nil {
		t.Fatal(err)
	}
	file, _ := read(t, out.Bytes())
	for g, want := range []map[int][3]int64{
		{2: {-3, 12, 3}, 4: {7e6, 22e6, 3}},
		{2: {5, 5, 0}, 4: {15e6, 15e6, 0}},
	} {
		for k, column := range file.Metadata().RowGroups[g].Columns {
			of := column.MetaData.Statistics
			if want, ok := want[k]; !ok {
				if of.MinValue != nil || of.MaxValue != nil {
					t.Errorf("column %d: %q to %q", k, of.MinValue, of.MaxValue)
				}
			} else if got := [3]int64{int64(binary.LittleEndian.Uint64(of.MinValue)), int64(binary.LittleEndian.Uint64(of.MaxValue)), of.NullCount}; got != want {
				t.Errorf("group %d, column %d: least, greatest and nothing are %d, want %d", g, k, got, want)
			}
		}
	}
}

// TestParquetTooLarge: a value for which a page has no room is an error that names the column.
func TestParquetTooLarge(t *testing.T) {
	f := newParquetFile(io.Discard, "", parquetFields)
	f.most = 3
	if err := f.row(text("abc"), whole("abc"), cell{}, cell{}, cell{}); err != nil {
		t.Error(err)
	}
	if err := f.row(text("abc"), whole("abcd"), cell{}, cell{}, cell{}); err == nil || !strings.Contains(err.Error(), "column text: a value of 4 bytes") {
		t.Errorf("error %v", err)
	}
}

// TestParquetWrites: an error of a write comes back from row or end, wherever the write is.
func TestParquetWrites(t *testing.T) {
	rows := [][]cell{{text("a"), whole("b"), number(1), float(2), at(3)}}
	whole := len(parquetOf(t, rows))
	for room := 0; room < whole; room += 1 + whole/50 {
		f := newParquetFile(&narrow{room: room}, "a program", parquetFields)
		if err := cmp.Or(f.row(rows[0]...), f.end()); err != errNarrow {
			t.Fatalf("room for %d of %d bytes: error %v", room, whole, err)
		}
	}
}

var errNarrow = errors.New("no room")

// A narrow writer has room for so many bytes.
type narrow struct{ room int }

func (w *narrow) Write(b []byte) (int, error) {
	if w.room -= len(b); w.room < 0 {
		return 0, errNarrow
	}
	return len(b), nil
}

// TestKinds: what a column has of any record is of the kind of the column, or nothing.
func TestKinds(t *testing.T) {
	i := sample(t)
	lookInVain(t, i, "https://example.org/")
	seen := map[string]bool{}
	l := line{in: i}
	err := i.Index.Records(t.Context(), nil, func(r record.Record, damage error) error {
		if damage != nil {
			return damage
		}
		if err := l.read(&r, needsOf(columns)); err != nil {
			return err
		}
		for _, c := range columns {
			got := c.value(&l).kind
			if got != nothing && got != c.kind {
				t.Errorf("%s of %s is of kind %d, want %d", c.Word, r.URL, got, c.kind)
			}
			seen[c.Word] = seen[c.Word] || got != nothing
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range columns {
		if !seen[c.Word] {
			t.Errorf("no record has a %s", c.Word)
		}
	}
}

// lookInVain has a stored page asked again, of which its server says that it is not there any more.
func lookInVain(t *testing.T, i *Inspector, url string) {
	t.Helper()
	revisits := i.Index.Revisits()
	if _, err := revisits.Mark(t.Context(), nil, func(r *record.Record) int64 {
		if r.URL != url {
			return r.Due
		}
		return record.DueAtOnce
	}); err != nil {
		t.Fatal(err)
	}
	if _, err := revisits.Queue(t.Context(), time.Now(), nil); err != nil {
		t.Fatal(err)
	}
	r, err := i.Index.Record(url)
	if err != nil {
		t.Fatal(err)
	}
	commit(t, i, &record.Outcome{
		Row: r.Revisit(), State: record.Failed, Reason: "http-4xx", Page: record.Page{Time: time.Now().Unix(), Status: 404},
	})
}

// A heap is a writer that notes how much the objects on the heap are at most, in bytes.
type heap struct{ begin, most, written uint64 }

func (h *heap) look() uint64 {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}

func (h *heap) Write(b []byte) (int, error) {
	before := h.written
	if h.written += uint64(len(b)); h.written>>20 != before>>20 {
		h.most = max(h.most, h.look())
	}
	return len(b), nil
}

// check fails the test if the heap has grown by more than room since begin.
func (h *heap) check(t *testing.T, what string, atLeast, room uint64) {
	t.Helper()
	grown := h.most - min(h.most, h.begin)
	t.Logf("%s: %d bytes written, the heap grew by %d", what, h.written, grown)
	if h.written < atLeast || grown > room {
		t.Errorf("%s: %d bytes written, want at least %d; the heap grew by %d, want at most %d", what, h.written, atLeast, grown, room)
	}
}

// TestParquetMemory: the memory that a file takes does not grow with its rows, of which there are a
// million, nor with its texts, but for what describes a group.
func TestParquetMemory(t *testing.T) {
	if testing.Short() {
		t.Skip("a million rows, by one goroutine")
	}
	const room = 56 << 20
	rnd := rand.NewChaCha8([32]byte{1})
	noise := make([]byte, 64<<10)
	for what, length := range map[string]int{"rows": 64, "texts": 64 << 10} {
		h := new(heap)
		h.begin = h.look()
		f := newParquetFile(h, "", parquetFields)
		n := min(1_000_000, 128<<20/length)
		for k := range n {
			_, _ = rnd.Read(noise[:length])
			hexed := hex.EncodeToString(noise[:length/2])
			if k%(n/32) == 0 {
				h.most = max(h.most, h.look()) // also within a group
			}
			if err := f.row(text(hexed[:32]), whole(hexed), number(int64(k)), float(1/float64(k)), at(int64(k))); err != nil {
				t.Fatal(err)
			}
		}
		if err := f.end(); err != nil {
			t.Fatal(err)
		}
		h.check(t, what, uint64(n*length/2), room)
	}
}

// TestExportMemory: the memory that an export takes does not grow with the pages.
func TestExportMemory(t *testing.T) {
	if testing.Short() {
		t.Skip("many pages, by one goroutine")
	}
	pages, batch := 100_000, 10_000
	if os.Getenv("TEST_URLTREE_FULL") != "" {
		pages = 1_000_000
	}
	i := open(t)
	for n := 0; n < pages; n += batch {
		var outcomes []*record.Outcome
		for k := n; k < n+batch; k++ {
			url := fmt.Sprintf("https://example.org/%03d/%03d", k/1000, k%1000)
			page := record.Page{Time: int64(k + 1), Status: 200, Bytes: int64(k), Media: "text/html", Flags: "-"}
			page.Digest = sha256.Sum256([]byte(url))
			outcomes = append(outcomes, &record.Outcome{Row: record.Row{URL: url, Source: record.Seed, Tries: 1}, State: record.Stored, Page: page})
		}
		commit(t, i, outcomes...)
	}
	for format, room := range map[string]uint64{"jsonl": 12 << 20, "csv": 12 << 20, "parquet": 64 << 20} {
		h := new(heap)
		h.begin = h.look()
		if err := i.Run(t.Context(), question("export", "-what", "pages", "-format", format), h); err != nil {
			t.Fatal(err)
		}
		h.check(t, format, uint64(pages*32), room)
	}
}
