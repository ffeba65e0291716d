package backup

import (
	"archive/tar"
	"cmp"
	"compress/gzip"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"filippo.io/age"

	"github.com/cps-gpu/homelab/remote/ssh"
	"github.com/cps-gpu/homelab/secret"
)

// Format is the version of the layout that [Write] writes. [Open] also reads 1, which has no
// signature.
const Format = 2

// Manifest says what a backup is.
type Manifest struct {
	Format   int       `json:"format"`
	Cluster  string    `json:"cluster"`           // its name
	Made     time.Time `json:"made"`              // when the snapshot was taken
	K3s      string    `json:"k3s,omitempty"`     // version of K3s on the server
	Kubeadm  string    `json:"kubeadm,omitempty"` // version of Kubernetes on the server, instead, if kubeadm has set it up
	Talos    string    `json:"talos,omitempty"`   // the same with Talos machines
	Server   string    `json:"server"`            // where the snapshot was taken
	Servers  []string  `json:"servers"`           // of the cluster's file
	Agents   []string  `json:"agents"`            // of the cluster's file
	Snapshot string    `json:"snapshot"`          // its file name on the server
	Size     int64     `json:"size"`              // of the snapshot, in bytes
	SHA256   string    `json:"sha256"`            // of the snapshot, in hexadecimal

	// Objects are how many there were, by resource, as the API told right before and after the
	// snapshot. A resource whose number changed in between is not in it.
	Objects map[string]int `json:"objects,omitempty"`
}

// Distribution is k3s, kubeadm or talos: a backup of one is nothing to the others.
func (m Manifest) Distribution() string {
	switch {
	case m.Kubeadm != "":
		return "kubeadm"
	case m.Talos != "":
		return "talos"
	}
	return "k3s"
}

// WithProgram returns the manifest of a distribution in a version.
func (m Manifest) WithProgram(distribution, version string) Manifest {
	m.K3s, m.Kubeadm, m.Talos = "", "", ""
	switch distribution {
	case "kubeadm":
		m.Kubeadm = version
	case "talos":
		m.Talos = version
	default:
		m.K3s = version
	}
	return m
}

// HasAuthorities reports whether the backup has the files of the cluster's authorities, and not K3s' token.
func (m Manifest) HasAuthorities() bool { return m.Kubeadm != "" || m.Talos != "" }

// Version is that of K3s, or else of Kubernetes.
func (m Manifest) Version() string { return cmp.Or(m.Kubeadm, m.Talos, m.K3s) }

// Program is the same with its name.
func (m Manifest) Program() string {
	if m.HasAuthorities() {
		return "Kubernetes " + m.Version()
	}
	return "K3s " + m.K3s
}

// Contents is what a backup has beside the snapshot.
type Contents struct {
	Manifest
	Token       secret.Value // of servers: it decrypts what K3s keeps in etcd; with kubeadm and Talos the files of the authorities, as a JSON object
	AgentToken  secret.Value // of agents; it may be that of servers; with kubeadm and Talos there is none
	Config      []byte       // config.yaml of the server, or what kubeadm has set it up with
	ClusterYAML []byte       // the cluster's file

	// Maker is the key that signed the backup; nil: it is not signed, and everybody who has the
	// public key of a recipient could have made it. [Open] sets it, [Write] does not read it.
	Maker ssh.PublicKey
}

// The files in the archive, in their order. The snapshot's is followed by sums.
const (
	fileManifest   = "manifest.json"
	fileToken      = "token"
	fileAgentToken = "agent-token"
	fileConfig     = "config.yaml"
	fileCluster    = "cluster.yaml"
	fileSignature  = "signature" // of SHA256SUMS, or empty
	fileSnapshot   = "snapshot"
	fileSums       = "SHA256SUMS"
)

// namespace says of a signature that it is one of a backup.
const namespace = "homelab-backup"

// smallFiles are the files before the snapshot.
func (c *Contents) smallFiles() ([]file, error) {
	manifest, err := json.MarshalIndent(c.Manifest, "", "  ")
	if err != nil {
		return nil, fmt.Errorf("backup: %w", err)
	}
	return []file{
		{fileManifest, append(manifest, '\n')},
		{fileToken, []byte(c.Token.Reveal())},
		{fileAgentToken, []byte(c.AgentToken.Reveal())},
		{fileConfig, c.Config},
		{fileCluster, c.ClusterYAML},
	}, nil
}

type file struct {
	name string
	data []byte
}

// sums are the digests of all files, as sha256sum prints them.
func (m Manifest) sums(small []file) []byte {
	var out []byte
	for _, f := range small {
		out = fmt.Appendf(out, "%x  %s\n", sha256.Sum256(f.data), f.name)
	}
	return fmt.Appendf(out, "%s  %s\n", m.SHA256, fileSnapshot)
}

// Recipients reads who may decrypt a backup: public keys of age, as age-keygen prints them.
func Recipients(keys ...string) ([]age.Recipient, error) {
	var out []age.Recipient
	var errs []error
	for _, key := range keys {
		if strings.HasPrefix(key, "AGE-SECRET-KEY-") {
			errs = append(errs, errors.New("a recipient is a private key of age: write its public key (age-keygen -y), and make a new pair if this one was shared"))
			continue
		}
		r, err := age.ParseRecipients(strings.NewReader(key))
		if err != nil {
			errs = append(errs, fmt.Errorf("recipient %q is not a public key of age: write age1…, as age-keygen prints it", key))
		}
		out = append(out, r...)
	}
	return out, errors.Join(errs...)
}

// Identities reads the private keys of a file that age-keygen wrote.
func Identities(keyFile io.Reader) ([]age.Identity, error) {
	ids, err := age.ParseIdentities(io.LimitReader(keyFile, smallest))
	if err != nil {
		return nil, errors.New("the identity is not a file with private keys of age (AGE-SECRET-KEY-1…), as age-keygen writes it")
	}
	return ids, nil
}

// Write writes a backup to w, encrypted to all recipients, and returns its SHA-256. by signs it
// and may be nil. The snapshot must have the size and the digest of the manifest: it is an error if it has
// others, and w is then no backup.
func Write(w io.Writer, to []age.Recipient, by ssh.Signer, c Contents, snapshot io.Reader) (sum string, err error) {
	if len(to) == 0 {
		return "", errors.New("backup: there is no recipient, so nobody could decrypt it")
	}
	c.Format = Format
	if err := c.check(); err != nil {
		return "", fmt.Errorf("backup: %w", err)
	}
	small, err := c.smallFiles()
	if err != nil {
		return "", err
	}
	sums := c.sums(small)
	var proof []byte
	if by != nil {
		if proof, err = ssh.Sign(by, namespace, sums); err != nil {
			return "", fmt.Errorf("backup: %w", err)
		}
	}
	whole := sha256.New()
	sealed, err := age.Encrypt(io.MultiWriter(w, whole), to...)
	if err != nil {
		return "", fmt.Errorf("backup: %w", err)
	}
	packed := gzip.NewWriter(sealed)
	archive := tar.NewWriter(packed)
	for _, f := range append(small, file{fileSignature, proof}) {
		if err := add(archive, f, c.Made); err != nil {
			return "", err
		}
	}
	if err := addSnapshot(archive, c.Manifest, snapshot); err != nil {
		return "", err
	}
	if err := add(archive, file{fileSums, sums}, c.Made); err != nil {
		return "", err
	}
	for _, end := range []io.Closer{archive, packed, sealed} {
		if err := end.Close(); err != nil {
			return "", fmt.Errorf("backup: %w", err)
		}
	}
	return hex.EncodeToString(whole.Sum(nil)), nil
}

func add(archive *tar.Writer, f file, at time.Time) error {
	err := archive.WriteHeader(&tar.Header{Name: f.name, Mode: 0o600, Size: int64(len(f.data)), ModTime: at})
	if err == nil {
		_, err = archive.Write(f.data)
	}
	if err != nil {
		return fmt.Errorf("backup: %w", err)
	}
	return nil
}

func addSnapshot(archive *tar.Writer, m Manifest, snapshot io.Reader) error {
	if err := archive.WriteHeader(&tar.Header{Name: fileSnapshot, Mode: 0o600, Size: m.Size, ModTime: m.Made}); err != nil {
		return fmt.Errorf("backup: %w", err)
	}
	sum := sha256.New()
	n, err := io.Copy(io.MultiWriter(archive, sum), snapshot)
	switch {
	case errors.Is(err, tar.ErrWriteTooLong):
		return fmt.Errorf("backup: the snapshot %s has more than the %d bytes that it had before", m.Snapshot, m.Size)
	case err != nil:
		return fmt.Errorf("backup: read the snapshot: %w", err)
	case n != m.Size:
		return fmt.Errorf("backup: the snapshot %s ended after %d of %d bytes", m.Snapshot, n, m.Size)
	case hex.EncodeToString(sum.Sum(nil)) != m.SHA256:
		return fmt.Errorf("backup: the snapshot %s changed on its way here", m.Snapshot)
	}
	return nil
}
