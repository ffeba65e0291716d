package iso

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"fmt"
	"maps"
	"slices"
	"strings"
	"unicode"
	"unicode/utf16"
)

// The sectors of an image that Write makes.
const (
	primaryTable = descriptors + 3 // path tables, little endian and big endian
	jolietTable  = primaryTable + 2
	primaryRoot  = jolietTable + 2
	jolietRoot   = primaryRoot + 1
	firstFile    = jolietRoot + 1

	pathTableSize = 10 // of the root folder alone
	dateLength    = 17
)

// file is one file, and where it is.
type file struct {
	name    string
	content []byte
	sector  int
}

// Write makes an image of files by name. There may be as many as fit into one sector of the root
// folder, which is about a dozen.
func Write(label string, files map[string][]byte) ([]byte, error) {
	var all []file
	next := firstFile
	for _, name := range slices.Sorted(maps.Keys(files)) {
		all = append(all, file{name, files[name], next})
		next += (len(files[name]) + sector - 1) / sector
	}
	image := make([]byte, next*sector)
	at := func(n int) []byte { return image[n*sector : (n+1)*sector] }
	for n, joliet := range []bool{false, true} {
		names, root := names(all, joliet), primaryRoot+n
		folder, err := folderOf(root, names)
		if err != nil {
			return nil, err
		}
		copy(at(root), folder)
		describe(at(descriptors+n), label, joliet, next, root)
		table := primaryTable + 2*n
		copy(at(table), slices.Concat([]byte{1, 0}, binary.LittleEndian.AppendUint32(nil, uint32(root)), []byte{1, 0, 0, 0}))
		copy(at(table+1), slices.Concat([]byte{1, 0}, binary.BigEndian.AppendUint32(nil, uint32(root)), []byte{0, 1, 0, 0}))
	}
	copy(at(descriptors+2), "\xffCD001\x01")
	for _, f := range all {
		copy(image[f.sector*sector:], f.content)
	}
	return image, nil
}

// names returns the files with their names in a tree, in its order.
func names(all []file, joliet bool) []file {
	out := slices.Clone(all)
	for i, f := range out {
		if joliet {
			out[i].name = wide(f.name)
			continue
		}
		out[i].name = strings.Map(func(r rune) rune { // d-characters, 7.4.1
			if r > unicode.MaxASCII || !unicode.IsLetter(r) && !unicode.IsDigit(r) {
				return '_'
			}
			return unicode.ToUpper(r)
		}, f.name) + ".;1"
	}
	slices.SortFunc(out, func(a, b file) int { return cmp.Compare(a.name, b.name) })
	return out
}

// wide is a text in UCS-2, big endian.
func wide(s string) string {
	var out []byte
	for _, u := range utf16.Encode([]rune(s)) {
		out = binary.BigEndian.AppendUint16(out, u)
	}
	return string(out)
}

// folderOf is the root folder's content: itself, its parent, which is itself, and its files.
func folderOf(root int, files []file) ([]byte, error) {
	out := slices.Concat(record("\x00", root, sector, folderFlag), record("\x01", root, sector, folderFlag))
	for _, f := range files {
		out = append(out, record(f.name, f.sector, len(f.content), 0)...)
	}
	if len(out) > sector {
		return nil, fmt.Errorf("%d files do not fit into the root folder of a disc", len(files))
	}
	return out, nil
}

// record is a directory record, 9.1.
func record(name string, at, size int, flags byte) []byte {
	out := bytes.NewBuffer([]byte{0, 0})
	out.Write(both32(at))
	out.Write(both32(size))
	out.Write([]byte{80, 1, 1, 0, 0, 0, 0, flags, 0, 0}) // 1980-01-01
	out.Write(both16(1))
	out.WriteByte(byte(len(name)))
	out.WriteString(name)
	if out.Len()%2 == 1 {
		out.WriteByte(0)
	}
	out.Bytes()[0] = byte(out.Len())
	return out.Bytes()
}

// describe writes a volume descriptor, 8.4 and 8.5.
func describe(to []byte, label string, joliet bool, sectors, root int) {
	kind, blank := byte(primary), " "
	if joliet {
		kind, blank = supplementary, wide(" ")
		label = wide(label)
		copy(to[escapeAt:], "%/E")
	}
	const words, dates = 190, 813 // where identifiers begin, and where they end
	for _, field := range [][]byte{to[8:72], to[words:dates]} {
		copy(field, strings.Repeat(blank, len(field)/len(blank)))
	}
	copy(to, []byte{kind, 'C', 'D', '0', '0', '1', 1})
	copy(to[labelAt:labelAt+labelLength], label)
	copy(to[80:], both32(sectors))
	copy(to[120:], both16(1))
	copy(to[124:], both16(1))
	copy(to[128:], both16(sector))
	copy(to[132:], both32(pathTableSize))
	table := primaryTable
	if joliet {
		table = jolietTable
	}
	binary.LittleEndian.PutUint32(to[140:], uint32(table))
	binary.BigEndian.PutUint32(to[148:], uint32(table+1))
	copy(to[rootAt:], record("\x00", root, sector, folderFlag))
	for i := range 4 { // no dates are given, 8.4.26.1
		copy(to[dates+i*dateLength:], strings.Repeat("0", dateLength-1))
	}
	to[881] = 1
}

func both32(n int) []byte {
	return binary.BigEndian.AppendUint32(binary.LittleEndian.AppendUint32(nil, uint32(n)), uint32(n))
}

func both16(n int) []byte {
	return binary.BigEndian.AppendUint16(binary.LittleEndian.AppendUint16(nil, uint16(n)), uint16(n))
}
