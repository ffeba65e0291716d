package cloudinit

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"maps"

	"github.com/cps-gpu/homelab/internal/iso9660"
)

// seedLabel is the volume label by which cloud-init finds a NoCloud disk.
const seedLabel = "cidata"

// NoCloud has all documents of a machine's first boot.
type NoCloud struct {
	UserData UserData
	MetaData MetaData
	Network  Network
	Windows  *WindowsSetup // additionally; nil where the system is there
}

// Files returns the documents by file name.
func (n NoCloud) Files() (map[string][]byte, error) {
	files := map[string][]byte{}
	for name, render := range map[string]func() ([]byte, error){
		"user-data":      n.UserData.render,
		"meta-data":      n.MetaData.render,
		"network-config": n.Network.Render,
	} {
		b, err := render()
		if err != nil {
			return nil, err
		}
		files[name] = b
	}
	if len(n.Network.Ethernets) == 0 {
		delete(files, "network-config") // cloud-init then asks for an address on the first interface
	}
	if n.Windows == nil {
		return files, nil
	}
	setup, err := n.Windows.files(n.MetaData.LocalHostname)
	maps.Copy(files, setup)
	return files, err
}

// ISO returns an image to attach as a CD-ROM. Equal documents give equal bytes.
func (n NoCloud) ISO() ([]byte, error) {
	files, err := n.Files()
	if err != nil {
		return nil, err
	}
	return iso9660.Build(seedLabel, files)
}

// Digest returns 64 hexadecimal digits that change whenever a document does. The
// first twelve are enough for a name.
func (n NoCloud) Digest() (string, error) {
	files, err := n.Files()
	if err != nil {
		return "", err
	}
	parts := [][]byte{files["user-data"], files["meta-data"], files["network-config"]}
	if n.Windows != nil {
		parts = append(parts, files[answerName], files[scriptName])
	}
	return Digest(parts...), nil
}

// Digest returns the SHA-256, in hexadecimal, of the parts, each with its length before it, so
// that different lists of parts never give the same bytes.
func Digest(parts ...[]byte) string {
	h := sha256.New()
	for _, p := range parts {
		_ = binary.Write(h, binary.BigEndian, uint64(len(p))) // a hash never fails
		h.Write(p)
	}
	return hex.EncodeToString(h.Sum(nil))
}
