package inspect

import (
	"cmp"
	"encoding/binary"
	"fmt"
	"io"
	"math"

	"github.com/klauspost/compress/zstd"
	"github.com/parquet-go/parquet-go/deprecated"
	"github.com/parquet-go/parquet-go/encoding/thrift"
	"github.com/parquet-go/parquet-go/format"
)

// Bounds of a Parquet file. A page, and a group of rows, ends with the row that reaches one. A
// group is kept in memory until it ends, compressed but for the pages at hand, because its columns
// stand in the file one after the other.
const (
	parquetPage  = 1 << 20 // bytes of the values in a page
	parquetGroup = 32 << 20
	parquetRows  = 100_000
	parquetValue = 1 << 30 // bytes of a value: the size of a page has 31 bits
)

const parquetMagic = "PAR1"

// A parquetFile writes rows as a Parquet file. Each column is optional and of the type of its kind.
// Values are PLAIN, compressed with zstd. The same rows make the same bytes.
//
// Of parquet-go it takes the format alone. The writer of that module has a page for each long
// value: the texts of 10,138 pages took 2.2 times the bytes, their HTML 6.2 times, and 2.7 times
// the memory.
type parquetFile struct {
	w       io.Writer
	at      int64 // bytes written
	err     error // of a write
	columns []parquetColumn
	rows    int64 // in the group
	size    int   // bytes of the values in the group
	most    int   // bytes of a value
	about   format.FileMetaData
	zstd    *zstd.Encoder
	scratch []byte
}

// A parquetColumn is a column of the group at hand.
type parquetColumn struct {
	field
	pages  []byte // those that are complete
	chunk  format.ColumnMetaData
	levels runs   // of the page at hand
	values []byte // of the page at hand, without those that are nothing
	least  int64  // of the numbers in the group, if any is there
	most   int64
}

// newParquetFile begins a file that names the program that makes it.
func newParquetFile(w io.Writer, software string, fields []field) *parquetFile {
	f := &parquetFile{w: w, most: parquetValue, columns: make([]parquetColumn, len(fields))}
	f.zstd, _ = zstd.NewWriter(nil, zstd.WithEncoderConcurrency(1), zstd.WithEncoderCRC(false)) // these are no error
	f.about = format.FileMetaData{Version: 1, CreatedBy: software, Schema: []format.SchemaElement{{Name: "urltree", NumChildren: thrift.New(int32(len(fields)))}}}
	for i, c := range fields {
		f.columns[i].field = c
		f.columns[i].begin()
		f.about.Schema = append(f.about.Schema, schemaOf(c))
		f.about.ColumnOrders = append(f.about.ColumnOrders, format.ColumnOrder{Value: new(format.TypeDefinedOrder)})
	}
	f.write([]byte(parquetMagic))
	return f
}

// schemaOf returns the type of a column.
func schemaOf(c field) format.SchemaElement {
	e := format.SchemaElement{Name: c.name, RepetitionType: thrift.New(format.Optional), Type: thrift.New(physical(c.kind))}
	switch c.kind {
	case word, document:
		e.ConvertedType = thrift.New(deprecated.UTF8)
		e.LogicalType.Value = new(format.StringType)
	case moment:
		e.ConvertedType = thrift.New(deprecated.TimestampMicros)
		e.LogicalType.Value = &format.TimestampType{IsAdjustedToUTC: true, Unit: format.TimeUnit{Value: new(format.MicroSeconds)}}
	}
	return e
}

func physical(k kind) format.Type {
	switch k {
	case integer, moment:
		return format.Int64
	case decimal:
		return format.Double
	}
	return format.ByteArray
}

// begin begins the column of a group.
func (c *parquetColumn) begin() {
	c.pages = c.pages[:0]
	c.least, c.most = math.MaxInt64, math.MinInt64
	c.chunk = format.ColumnMetaData{
		Type: physical(c.kind), Encoding: []format.Encoding{format.Plain, format.RLE},
		PathInSchema: []string{c.name}, Codec: format.Zstd,
	}
}

func (f *parquetFile) row(cells ...cell) error {
	for i := range cells {
		before := len(f.columns[i].values)
		if err := f.columns[i].add(&cells[i], f.most); err != nil {
			return err
		}
		f.size += len(f.columns[i].values) - before
		if len(f.columns[i].values) >= parquetPage {
			f.page(&f.columns[i])
		}
	}
	if f.rows++; f.rows >= parquetRows || f.size >= parquetGroup {
		f.group()
	}
	return f.err
}

// add adds a value of at most so many bytes to the page at hand.
func (c *parquetColumn) add(v *cell, most int) error {
	if v.kind == nothing {
		c.levels.add(0)
		c.chunk.Statistics.NullCount++
		return nil
	}
	c.levels.add(1)
	n := v.number
	switch c.kind {
	case decimal:
		c.values = binary.LittleEndian.AppendUint64(c.values, math.Float64bits(v.real))
		return nil
	case moment:
		n *= 1e6
		fallthrough
	case integer:
		c.values = binary.LittleEndian.AppendUint64(c.values, uint64(n))
		c.least, c.most = min(c.least, n), max(c.most, n)
		return nil
	}
	s := v.string()
	if len(s) > most {
		return fmt.Errorf("column %s: a value of %d bytes, and in Parquet at most %d: leave the column out, or ask for -format jsonl", c.name, len(s), most)
	}
	c.values = append(binary.LittleEndian.AppendUint32(c.values, uint32(len(s))), s...)
	return nil
}

// page completes the page at hand of a column.
func (f *parquetFile) page(c *parquetColumn) {
	rows := c.levels.end()
	if rows == 0 {
		return
	}
	levels := c.levels.encoded
	f.scratch = binary.LittleEndian.AppendUint32(f.scratch[:0], uint32(len(levels)))
	f.scratch = append(append(f.scratch, levels...), c.values...)
	packed := f.zstd.EncodeAll(f.scratch, nil)
	head := f.encode(&format.PageHeader{
		Type: format.DataPage, UncompressedPageSize: int32(len(f.scratch)), CompressedPageSize: int32(len(packed)),
		DataPageHeader: thrift.New(format.DataPageHeader{
			NumValues: int32(rows), Encoding: format.Plain, DefinitionLevelEncoding: format.RLE, RepetitionLevelEncoding: format.RLE,
		}),
	})
	c.pages = append(append(c.pages, head...), packed...)
	c.chunk.NumValues += int64(rows)
	c.chunk.TotalUncompressedSize += int64(len(head) + len(f.scratch))
	c.levels.reset()
	c.values = kept(c.values)
	f.scratch = kept(f.scratch)
}

// kept returns an empty slice in the same memory, unless a long value has made that large.
func kept(b []byte) []byte {
	if cap(b) > 4*parquetPage {
		return nil
	}
	return b[:0]
}

// group writes the group of rows at hand.
func (f *parquetFile) group() {
	g := format.RowGroup{NumRows: f.rows, FileOffset: f.at, Ordinal: int16(min(len(f.about.RowGroups), math.MaxInt16))}
	for i := range f.columns {
		c := &f.columns[i]
		f.page(c)
		c.chunk.DataPageOffset, c.chunk.TotalCompressedSize = f.at, int64(len(c.pages))
		if c.least <= c.most {
			c.chunk.Statistics.MinValue = binary.LittleEndian.AppendUint64(nil, uint64(c.least))
			c.chunk.Statistics.MaxValue = binary.LittleEndian.AppendUint64(nil, uint64(c.most))
		}
		f.write(c.pages)
		g.Columns = append(g.Columns, format.ColumnChunk{MetaData: c.chunk})
		g.TotalByteSize += c.chunk.TotalUncompressedSize
		g.TotalCompressedSize += c.chunk.TotalCompressedSize
		c.begin()
	}
	f.about.RowGroups = append(f.about.RowGroups, g)
	f.about.NumRows += f.rows
	f.rows, f.size = 0, 0
}

// end writes the rows that are left, and what the file has.
func (f *parquetFile) end() error {
	if f.rows > 0 {
		f.group()
	}
	about := f.encode(&f.about)
	f.write(binary.LittleEndian.AppendUint32(about, uint32(len(about))))
	f.write([]byte(parquetMagic))
	return cmp.Or(f.err, f.zstd.Close())
}

func (f *parquetFile) encode(v any) []byte {
	b, err := thrift.Marshal(new(thrift.CompactProtocol), v)
	f.err = cmp.Or(f.err, err)
	return b
}

func (f *parquetFile) write(b []byte) {
	if f.err != nil {
		return
	}
	n, err := f.w.Write(b)
	f.at, f.err = f.at+int64(n), err
}

// runs are levels of 0 and 1 in the encoding RLE: how often each comes, and the level.
type runs struct {
	encoded []byte // without the run at hand
	level   byte
	run     int
	all     int // levels in encoded
}

func (r *runs) add(level byte) {
	if level != r.level {
		r.flush()
		r.level = level
	}
	r.run++
}

func (r *runs) flush() {
	if r.run > 0 {
		r.encoded = append(binary.AppendUvarint(r.encoded, uint64(r.run)<<1), r.level)
		r.all, r.run = r.all+r.run, 0
	}
}

// end completes the last run, and returns how many levels there are.
func (r *runs) end() int {
	r.flush()
	return r.all
}

func (r *runs) reset() { *r = runs{encoded: r.encoded[:0]} }
