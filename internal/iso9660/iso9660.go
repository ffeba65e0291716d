// Package iso9660 writes small ISO 9660 images, which pass first-boot data to a
// virtual machine: a few files in the root folder, with a volume label. go-diskfs implements
// the format. This package makes sure that equal files always give equal bytes, and works in
// memory.
//
// Names are kept in the Joliet tree, which Linux reads without any mount option.
// Rock Ridge is left out because it records the inode change time and the owner
// of a staging file, neither of which a program can choose.
package iso9660

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	diskfs "github.com/diskfs/go-diskfs/filesystem/iso9660"
)

const (
	sector      = 2048
	descriptors = 16 * sector // where the volume descriptors begin, ECMA-119 6.2.1
	maxLabel    = 16          // Joliet's limit in characters; ISO 9660 has 32
	maxName     = 64          // Joliet's limit in characters
)

// Build makes an image with the label and the files, by name, in its root folder.
func Build(label string, files map[string][]byte) ([]byte, error) {
	if label == "" || len(label) > maxLabel {
		return nil, fmt.Errorf("ISO label %q: want 1 to %d characters", label, maxLabel)
	}
	staging, err := stage(files)
	if err != nil {
		return nil, err
	}
	defer func() { _ = os.RemoveAll(staging) }()

	disk := &memory{}
	image, err := diskfs.Create(disk, 0, 0, sector, staging)
	if err != nil {
		return nil, fmt.Errorf("make ISO: %w", err)
	}
	if err := image.Finalize(diskfs.FinalizeOptions{Joliet: true, VolumeIdentifier: label}); err != nil {
		return nil, fmt.Errorf("make ISO: %w", err)
	}
	disk.pad(sector)
	if err := clearDates(disk.data); err != nil {
		return nil, fmt.Errorf("make ISO: %w", err)
	}
	return disk.data, nil
}

// stage writes the files to a new temporary folder, as the library requires.
func stage(files map[string][]byte) (dir string, err error) {
	if len(files) == 0 {
		return "", errors.New("make ISO: no files")
	}
	dir, err = os.MkdirTemp("", "iso9660-")
	if err != nil {
		return "", fmt.Errorf("make ISO: %w", err)
	}
	for _, name := range slices.Sorted(maps.Keys(files)) {
		if !fs.ValidPath(name) || strings.Contains(name, "/") || name == "." || len(name) > maxName {
			err = fmt.Errorf("make ISO: %q is not a file name of at most %d characters", name, maxName)
		} else {
			err = os.WriteFile(filepath.Join(dir, name), files[name], 0o600)
		}
		if err != nil {
			_ = os.RemoveAll(dir)
			return "", err
		}
	}
	return dir, nil
}

// Types of volume descriptors, ECMA-119 8.1.1, and offsets in them.
const (
	primary, supplementary, terminator = 1, 2, 255

	rootRecord = 156 // a directory record: place and size of the root folder
	dates      = 813
)

// extent returns the place and size that a directory record gives, in bytes.
func extent(record []byte) (from, size int64) {
	return int64(binary.LittleEndian.Uint32(record[2:])) * sector, int64(binary.LittleEndian.Uint32(record[10:]))
}

// clearDates replaces every date in the image: four in each volume descriptor (ECMA-119 8.4.26
// to 8.4.29) and one in each directory record (9.1.5). Two images of the same files differ
// only in dates.
func clearDates(image []byte) error {
	unspecified := append([]byte(strings.Repeat("0", 16)), 0) // 8.4.26.1: no date given
	for at := descriptors; at+sector <= len(image); at += sector {
		volume := image[at : at+sector]
		switch volume[0] {
		case terminator:
			return nil
		case primary, supplementary:
			for i := range 4 {
				copy(volume[dates+i*len(unspecified):], unspecified)
			}
			undateRecord(volume[rootRecord:])
			from, size := extent(volume[rootRecord:])
			if from+size > int64(len(image)) {
				return fmt.Errorf("root folder at %d, %d bytes, is outside the image", from, size)
			}
			undateFolder(image[from : from+size])
		}
	}
	return errors.New("no end of the volume descriptors")
}

func undateFolder(folder []byte) {
	for at := 0; at < len(folder); {
		length := int(folder[at])
		if length == 0 { // records do not cross sectors; the rest of this one is empty
			at = (at/sector + 1) * sector
			continue
		}
		undateRecord(folder[at:])
		at += length
	}
}

// undateRecord sets a directory record's date to 1980-01-01 00:00:00 UTC, which
// every reader can show.
func undateRecord(record []byte) {
	copy(record[18:25], []byte{80, 1, 1, 0, 0, 0, 0})
}
