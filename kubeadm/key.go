package kubeadm

import (
	"bytes"
	"crypto/sha1" //nolint:gosec // what an OpenPGP fingerprint of version 4 is
	"encoding/base64"
	"encoding/binary"
	"errors"
	"fmt"
	"strings"
)

// keyFingerprint is that of the key that signs all repositories of pkgs.k8s.io: "isv:kubernetes OBS Project", RSA of
// 2048 bits, of 2022-08-25. Its owners prolong it: what is pinned is the key, and not its end.
const keyFingerprint = "DE15B14486CD377B9E876E1A234654DA9A296436"

// crioFingerprint is that of the key that signs all repositories of CRI-O: "isv:cri-o OBS Project", RSA of 4096 bits, of
// 2025-02-11 (cri-o/cri-o#9298).
const crioFingerprint = "85B67D5C50100B1AC8CEFE49CBA9C85640A2B579"

// checkKey returns an error unless an armoured file has one key, with that fingerprint.
func checkKey(armoured []byte, want string) error {
	packets, err := dearmour(armoured)
	if err != nil {
		return err
	}
	keys := 0
	for len(packets) > 0 {
		tag, body, rest, err := packet(packets)
		if err != nil {
			return err
		}
		packets = rest
		if tag == 6 || tag == 14 { // a public key, or a subkey, which may sign, too
			keys++
			if got := fingerprint(body); got != want {
				return fmt.Errorf("it has the key %s, and should have %s", got, want)
			}
		}
	}
	if keys != 1 {
		return fmt.Errorf("it has %d keys instead of one", keys)
	}
	return nil
}

// fingerprint is that of a public key of version 4 (RFC 4880, 12.2).
func fingerprint(body []byte) string {
	h := sha1.New() //nolint:gosec // see above
	h.Write([]byte{0x99})
	_ = binary.Write(h, binary.BigEndian, uint16(len(body))) //nolint:gosec // packet has limited it; a hash takes everything
	h.Write(body)
	return fmt.Sprintf("%X", h.Sum(nil))
}

// dearmour returns the packets of an armoured file (RFC 4880, 6.2). apt checks what they sign.
func dearmour(text []byte) ([]byte, error) {
	const begin, end = "-----BEGIN PGP PUBLIC KEY BLOCK-----", "-----END PGP PUBLIC KEY BLOCK-----"
	_, after, begins := strings.Cut(strings.ReplaceAll(string(text), "\r\n", "\n"), begin+"\n")
	block, more, ends := strings.Cut(after, end)
	_, data, headed := strings.Cut("\n"+block, "\n\n") // headers end with an empty line
	if !begins || !ends || !headed || strings.TrimSpace(more) != "" {
		return nil, errors.New("it is not one armoured public key")
	}
	var lines strings.Builder
	for line := range strings.Lines(data) {
		if line = strings.TrimSpace(line); !strings.HasPrefix(line, "=") { // a checksum
			lines.WriteString(line)
		}
	}
	return base64.StdEncoding.DecodeString(lines.String())
}

// packet splits the first OpenPGP packet off (RFC 4880, 4.2).
func packet(b []byte) (tag int, body, rest []byte, err error) {
	bad := errors.New("it is cut short, or not of OpenPGP")
	if len(b) < 2 || b[0]&0x80 == 0 {
		return 0, nil, nil, bad
	}
	size := 0
	if b[0]&0x40 == 0 { // the old format
		tag = int(b[0]>>2) & 0xf
		octets := 1 << (b[0] & 3)
		if octets == 8 || len(b) < 1+octets {
			return 0, nil, nil, bad
		}
		for _, x := range b[1 : 1+octets] {
			size = size<<8 | int(x)
		}
		b = b[1+octets:]
	} else {
		tag = int(b[0]) & 0x3f
		switch first := int(b[1]); {
		case first < 192:
			size, b = first, b[2:]
		case first < 224 && len(b) > 2:
			size, b = (first-192)<<8+int(b[2])+192, b[3:]
		default:
			return 0, nil, nil, bad
		}
	}
	if size > len(b) || size > 1<<16-1 {
		return 0, nil, nil, bad
	}
	return tag, bytes.Clone(b[:size]), b[size:], nil
}
