package k3s

import (
	"bytes"
	"crypto/aes"
	"crypto/cipher"
	"crypto/pbkdf2"
	"crypto/rand"
	"crypto/sha1"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"errors"
	"strings"
	"time"

	"github.com/cps-gpu/homelab/sim/guest/internal/machine"
	"github.com/cps-gpu/homelab/sim/guest/internal/plane"
)

// What a server that starts without its folder tls needs is in etcd, under a key that begins
// the SHA-256 of the token's secret, encrypted with that secret (pkg/cluster/encrypt.go).
const bootstrapPrefix = "/bootstrap/"

func bootstrapKey(secret string) string { return bootstrapPrefix + caHash(secret)[:12] }

// bootstrapFile is one file in there (pkg/bootstrap).
type bootstrapFile struct {
	Timestamp time.Time
	Content   []byte
}

// seal encrypts the cluster's authorities. Those of clients, of etcd and the others are not
// simulated: one stands for all.
func (c *cluster) seal(saved *plane.SavedState) ([]byte, error) {
	files := map[string]bootstrapFile{
		"ServerCA": {time.Now().UTC(), []byte(c.ca)}, "ServerCAKey": {time.Now().UTC(), saved.Authority},
	}
	switch {
	case saved.Encryption != nil:
		files["EncryptionConfig"] = bootstrapFile{time.Now().UTC(), saved.Encryption}
	case c.critical["EncryptSecrets"] == "true":
		files["EncryptionConfig"] = bootstrapFile{time.Now().UTC(), []byte(`{"kind":"EncryptionConfiguration"}`)}
	}
	plain, err := json.Marshal(files)
	if err != nil {
		return nil, err
	}
	salt := machine.HexID(4)
	gcm, err := cipherOf(c.secret, salt)
	if err != nil {
		return nil, err
	}
	nonce := make([]byte, gcm.NonceSize())
	_, _ = rand.Read(nonce)
	return []byte(salt + ":" + base64.StdEncoding.EncodeToString(gcm.Seal(nonce, nonce, plain, nil))), nil
}

// unseal decrypts them.
func unseal(secret string, sealed []byte) (map[string]bootstrapFile, error) {
	salt, text, ok := strings.Cut(string(sealed), ":")
	data, err := base64.StdEncoding.DecodeString(text)
	if !ok || err != nil {
		return nil, errors.New("invalid cipher text, not : delimited")
	}
	gcm, err := cipherOf(secret, salt)
	if err != nil {
		return nil, err
	}
	plain, err := gcm.Open(nil, data[:gcm.NonceSize()], data[gcm.NonceSize():], nil)
	if err != nil {
		return nil, err
	}
	files := map[string]bootstrapFile{}
	return files, json.Unmarshal(plain, &files)
}

func cipherOf(secret, salt string) (cipher.AEAD, error) {
	key, err := pbkdf2.Key(sha1.New, secret, []byte(salt), 4096, 32)
	if err != nil {
		return nil, err
	}
	block, err := aes.NewCipher(key)
	if err != nil {
		return nil, err
	}
	return cipher.NewGCM(block)
}

// authorityOf is the certificate and its key, as a control plane takes them again.
func authorityOf(files map[string]bootstrapFile) []byte {
	key := files["ServerCAKey"].Content
	if block, _ := pem.Decode(key); block == nil {
		return nil
	}
	return bytes.Clone(key)
}
