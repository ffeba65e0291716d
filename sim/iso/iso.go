// Package iso reads and writes the discs of simulated machines: ISO 9660 images with a few
// files in the root folder. Names are those of the Joliet tree, which Linux prefers.
//
// Source: ECMA-119 (sections are its 4th edition's), and Joliet's specification of 1995.
package iso

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"strings"
	"unicode/utf16"
)

const (
	sector      = 2048
	descriptors = 16 // the first sector of the volume descriptors, 6.2.1

	primary, supplementary, terminator = 1, 2, 255 // types of volume descriptors, 8.1.1

	// Offsets in a volume descriptor, 8.4.
	labelAt     = 40
	escapeAt    = 88
	rootAt      = 156
	labelLength = 32

	// Offsets in a directory record, 9.1.
	extentAt, sizeAt, flagsAt, nameLengthAt, nameAt = 2, 10, 25, 32, 33

	folderFlag = 2
)

var errNoImage = errors.New("not an ISO 9660 image")

// Read returns the files of the root folder by name, and the volume's label.
func Read(image []byte) (files map[string][]byte, label string, err error) {
	volume, joliet, err := descriptor(image)
	if err != nil {
		return nil, "", err
	}
	folder, err := extent(image, volume[rootAt:])
	if err != nil {
		return nil, "", fmt.Errorf("the root folder: %w", err)
	}
	files = map[string][]byte{}
	for at := 0; at < len(folder); {
		length := int(folder[at])
		if length == 0 { // a record does not cross sectors, 6.8.1.1
			at = (at/sector + 1) * sector
			continue
		}
		if length <= nameAt || at+length > len(folder) || nameAt+int(folder[at+nameLengthAt]) > length {
			return nil, "", errors.New("damaged image: a directory record is longer than its folder")
		}
		record := folder[at : at+length]
		at += length
		if record[flagsAt]&folderFlag != 0 {
			continue
		}
		name := nameOf(record[nameAt:nameAt+int(record[nameLengthAt])], joliet)
		content, err := extent(image, record)
		if err != nil {
			return nil, "", fmt.Errorf("%s: %w", name, err)
		}
		files[name] = bytes.Clone(content)
	}
	return files, strings.TrimRight(text(volume[labelAt:labelAt+labelLength], joliet), " \x00"), nil
}

// descriptor finds the volume descriptor of the Joliet tree, or else the primary one.
func descriptor(image []byte) (volume []byte, joliet bool, err error) {
	for at := descriptors * sector; at+sector <= len(image); at += sector {
		here := image[at : at+sector]
		if string(here[1:6]) != "CD001" {
			break
		}
		escape := string(here[escapeAt : escapeAt+3])
		switch {
		case here[0] == primary:
			volume = here
		case here[0] == supplementary && (escape == "%/@" || escape == "%/C" || escape == "%/E"):
			return here, true, nil
		case here[0] == terminator && volume != nil:
			return volume, false, nil
		}
	}
	return nil, false, errNoImage
}

// extent returns what a directory record stands for.
func extent(image, record []byte) ([]byte, error) {
	from := int64(binary.LittleEndian.Uint32(record[extentAt:])) * sector
	size := int64(binary.LittleEndian.Uint32(record[sizeAt:]))
	if from+size > int64(len(image)) {
		return nil, fmt.Errorf("damaged image: %d bytes at %d in an image of %d", size, from, len(image))
	}
	return image[from : from+size], nil
}

// nameOf is a file's name as Linux shows it: without its version, and in lower case if the tree
// has capitals only (fs/isofs/dir.c, isofs_name_translate).
func nameOf(raw []byte, joliet bool) string {
	name, _, _ := strings.Cut(text(raw, joliet), ";")
	if !joliet {
		name = strings.ToLower(name)
	}
	return strings.TrimSuffix(name, ".")
}

func text(raw []byte, joliet bool) string {
	if !joliet {
		return string(raw)
	}
	units := make([]uint16, len(raw)/2)
	for i := range units {
		units[i] = binary.BigEndian.Uint16(raw[2*i:])
	}
	return string(utf16.Decode(units))
}
