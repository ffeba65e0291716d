package backup

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"hash"
	"io"
	"strings"

	"filippo.io/age"

	"github.com/cps-gpu/homelab/remote/ssh"
	"github.com/cps-gpu/homelab/secret"
)

// smallest is the most that is read of a file that is not the snapshot.
const smallest = 4 << 20

// ErrIdentity means that the backup is not encrypted to any of the identities.
var ErrIdentity = errors.New("none of these identities decrypts it: use the private key of one of its recipients")

// ErrDamaged means that a backup is not as it was written.
var ErrDamaged = errors.New("the backup is damaged or was cut off: fetch it again, or use an earlier one")

// Reader is an open backup. Reading from it gives the snapshot. The last bytes come only when
// everything in the backup has proven to be as it was written.
type Reader struct {
	Contents

	archive *tar.Reader
	packed  *gzip.Reader
	sum     hash.Hash
	sums    []byte
	left    int64
	err     error
}

// Open decrypts the beginning of a backup: all but the snapshot, which it leaves to
// [Reader.Read].
func Open(r io.Reader, with ...age.Identity) (*Reader, error) {
	sealed := &counter{r: r}
	plain, err := age.Decrypt(sealed, with...)
	if err != nil {
		if errors.As(err, new(*age.NoIdentityMatchError)) {
			return nil, fmt.Errorf("open the backup: %w", ErrIdentity)
		}
		return nil, fmt.Errorf("open the backup: it is not a file encrypted by age, or it is damaged: %w", err)
	}
	unpacked := &limitedReader{sealed: sealed, ratio: shrinks}
	b := &Reader{sum: sha256.New()}
	if b.packed, err = gzip.NewReader(plain); err != nil {
		return nil, damageError(err)
	}
	unpacked.r = b.packed
	b.archive = tar.NewReader(unpacked)
	if err := b.head(); err != nil {
		return nil, err
	}
	if strings.HasSuffix(b.Snapshot, zipped) {
		unpacked.n, unpacked.ratio = 0, shrunk
	}
	head, err := b.archive.Next()
	if err != nil || head.Name != fileSnapshot || head.Size != b.Size || !regular(head) {
		return nil, damageError(err)
	}
	b.left = head.Size
	return b, nil
}

// head reads the files before the snapshot.
func (b *Reader) head() error {
	var small []file
	for _, name := range []string{fileManifest, fileToken, fileAgentToken, fileConfig, fileCluster} {
		data, err := b.file(name)
		if err != nil {
			return err
		}
		small = append(small, file{name, data})
	}
	if err := json.Unmarshal(small[0].data, &b.Manifest); err != nil {
		return damageError(err)
	}
	if b.Format < 1 || b.Format > Format {
		return fmt.Errorf("open the backup: it has layout %d, and this version reads %d: use the version of homelab that made it", b.Format, Format)
	}
	if err := b.check(); err != nil {
		return fmt.Errorf("open the backup: %w: do not restore it, somebody has made it by hand", err)
	}
	b.Token, b.AgentToken = secret.New(string(small[1].data)), secret.New(string(small[2].data))
	b.Config, b.ClusterYAML = small[3].data, small[4].data
	b.sums = b.Manifest.sums(small)
	if b.Format == 1 {
		return nil
	}
	proof, err := b.file(fileSignature)
	if err != nil || len(proof) == 0 {
		return err
	}
	if b.Maker, err = ssh.VerifySignature(namespace, b.sums, proof); err != nil {
		return fmt.Errorf("open the backup: %w", err)
	}
	return nil
}

func damageError(err error) error {
	if err == nil {
		return ErrDamaged
	}
	return fmt.Errorf("%w (%w)", ErrDamaged, err)
}

// regular reports whether a file is all in the archive. The holes of a sparse one are not.
func regular(head *tar.Header) bool {
	for key := range head.PAXRecords {
		if strings.HasPrefix(key, "GNU.sparse.") {
			return false
		}
	}
	return head.Typeflag == tar.TypeReg
}

// file reads the next file, which must have that name.
func (b *Reader) file(name string) ([]byte, error) {
	head, err := b.archive.Next()
	if err != nil || head.Name != name || head.Size > smallest || !regular(head) {
		return nil, damageError(err)
	}
	data, err := io.ReadAll(b.archive)
	if err != nil {
		return nil, damageError(err)
	}
	return data, nil
}

// Read reads the snapshot.
func (b *Reader) Read(p []byte) (int, error) {
	if b.err != nil {
		return 0, b.err
	}
	if b.left == 0 {
		b.err = b.finish()
		if b.err == nil {
			b.err = io.EOF
		}
		return 0, b.err
	}
	n, err := b.archive.Read(p[:min(int64(len(p)), b.left)])
	b.left -= int64(n)
	b.sum.Write(p[:n])
	switch {
	case err != nil && (!errors.Is(err, io.EOF) || b.left > 0):
		b.err = damageError(err)
	case b.left == 0: // before the last bytes are given away
		if b.err = b.finish(); b.err == nil {
			b.err = io.EOF
			return n, nil
		}
	default:
		return n, nil
	}
	return 0, b.err
}

// finish checks the digests, and that nothing was cut off.
func (b *Reader) finish() error {
	sum := hex.EncodeToString(b.sum.Sum(nil))
	sums, err := b.file(fileSums)
	if err != nil {
		return err
	}
	if sum != b.SHA256 || !bytes.Equal(sums, b.sums) {
		return ErrDamaged
	}
	if _, err := b.archive.Next(); !errors.Is(err, io.EOF) {
		return damageError(err)
	}
	// To the end of what is encrypted: age authenticates the last piece as such.
	if _, err := io.Copy(io.Discard, b.packed); err != nil {
		return damageError(err)
	}
	return nil
}
