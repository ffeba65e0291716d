package ssh_test

import (
	"bytes"
	"crypto/rand"
	"crypto/rsa"
	"encoding/pem"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	xssh "golang.org/x/crypto/ssh"

	"github.com/cps-gpu/homelab/remote/ssh"
	"github.com/cps-gpu/homelab/sim/facts"
)

func signers(t *testing.T) map[string]xssh.Signer {
	t.Helper()
	private, _, err := ssh.GenerateKey()
	require.NoError(t, err)
	small, err := ssh.ParseSigner(private)
	require.NoError(t, err)
	key, err := rsa.GenerateKey(rand.Reader, 2048)
	require.NoError(t, err)
	large, err := xssh.NewSignerFromKey(key)
	require.NoError(t, err)
	return map[string]xssh.Signer{"ed25519": small, "rsa": large}
}

// TestSign: a signature holds for its message and namespace alone, and ssh-keygen says the same.
func TestSign(t *testing.T) {
	keygen := facts.Program(t, "ssh-keygen", "openssh-client")
	for name, by := range signers(t) {
		message := []byte("what was signed")
		proof, err := ssh.Sign(by, "test", message)
		require.NoError(t, err)
		key, err := ssh.VerifySignature("test", message, proof)
		require.NoError(t, err)
		assert.Equal(t, by.PublicKey().Marshal(), key.Marshal())
		_, err = ssh.VerifySignature("test", []byte("something else"), proof)
		require.ErrorContains(t, err, "its signature does not match: ", name)

		file := filepath.Join(t.TempDir(), "proof")
		require.NoError(t, os.WriteFile(file, proof, 0o600))
		cmd := exec.CommandContext(t.Context(), keygen, "-Y", "check-novalidate", "-n", "test", "-s", file)
		cmd.Stdin = bytes.NewReader(message)
		out, err := cmd.CombinedOutput()
		require.NoError(t, err, "%s: %s", name, out)

		const none = "its signature is none of OpenSSH's for test"
		p, _ := pem.Decode(proof)
		block := func(kind string, b []byte) []byte { return pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: b}) }
		changed := func(at int) []byte {
			b := bytes.Clone(p.Bytes)
			b[at] ^= 1
			return block(p.Type, b)
		}
		for _, bad := range [][]byte{nil, []byte("text"), block("CERTIFICATE", p.Bytes), block(p.Type, p.Bytes[:20]), changed(0), changed(9)} { // magic, version
			_, err = ssh.VerifySignature("test", message, bad)
			require.EqualError(t, err, none)
		}
		_, err = ssh.VerifySignature("other", message, proof)
		require.EqualError(t, err, "its signature is none of OpenSSH's for other")
		_, err = ssh.VerifySignature("test", message, changed(20)) // the kind of the key
		require.ErrorContains(t, err, "the key of its signature: ")
	}
}

// weak signs with RSA and SHA-1, whatever it is asked for.
type weak struct{ xssh.Signer }

func (w weak) SignWithAlgorithm(r io.Reader, data []byte, _ string) (*xssh.Signature, error) {
	return w.Signer.(xssh.AlgorithmSigner).SignWithAlgorithm(r, data, xssh.KeyAlgoRSA)
}

type broken struct{ xssh.Signer }

func (broken) Sign(io.Reader, []byte) (*xssh.Signature, error) {
	return nil, errors.New("the agent has gone")
}

// TestWeakSignature: SHA-1 is not accepted; a signer that fails is named.
func TestWeakSignature(t *testing.T) {
	all := signers(t)
	proof, err := ssh.Sign(weak{all["rsa"]}, "test", nil)
	require.NoError(t, err)
	_, err = ssh.VerifySignature("test", nil, proof)
	require.EqualError(t, err, "its signature is none of OpenSSH's for test")
	_, err = ssh.Sign(broken{all["ed25519"]}, "test", nil)
	require.EqualError(t, err, "ssh: sign with the key "+xssh.FingerprintSHA256(all["ed25519"].PublicKey())+": the agent has gone")
}
