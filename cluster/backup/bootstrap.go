package backup

import (
	"crypto/aes"
	"crypto/cipher"
	"crypto/pbkdf2"
	"crypto/sha1"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"github.com/cps-gpu/homelab/secret"
)

// bootstrapPrefix is where K3s keeps what a new server needs, encrypted with the token. The
// rest of the key is the beginning of the token's SHA-256 (pkg/cluster/encrypt.go of K3s).
const bootstrapPrefix = "/bootstrap/"

// unlock decrypts what K3s keeps in etcd, with the secret part of the token.
func (f *Facts) unlock(keys map[string][]byte, token secret.Value) error {
	password := token.Reveal()
	hash := ""
	if full, ok := strings.CutPrefix(password, "K10"); ok { // K10HASH::USER:PASSWORD
		var rest string
		hash, rest, _ = strings.Cut(full, "::")
		_, password, _ = strings.Cut(rest, ":")
	}
	sealed, ok := keys[bootstrapPrefix+hexSum([]byte(password))[:12]]
	if !ok {
		for key := range keys {
			if strings.HasPrefix(key, bootstrapPrefix) {
				return ErrToken
			}
		}
		return errors.New("nothing of K3s is in it: no " + bootstrapPrefix + " in its keys")
	}
	plain, err := decrypt(password, string(sealed))
	if err != nil {
		return fmt.Errorf("%w (%w)", ErrToken, err)
	}
	files := map[string]struct{ Content []byte }{}
	if err := json.Unmarshal(plain, &files); err != nil {
		return fmt.Errorf("what K3s keeps in etcd cannot be read: %w", err)
	}
	if len(files["ServerCA"].Content) == 0 || len(files["ServerCAKey"].Content) == 0 {
		return errors.New("the snapshot lacks the certificate authority of the servers")
	}
	f.Authority = hexSum(files["ServerCA"].Content)
	f.Encryption = secret.New(string(files["EncryptionConfig"].Content))
	f.SecretsKey = len(files["EncryptionConfig"].Content) > 0
	if hash != "" && hash != f.Authority {
		return errors.New("the token is that of another certificate authority than the snapshot's")
	}
	return nil
}

// decrypt is K3s' own (pkg/cluster/encrypt.go): AES-GCM with a key of PBKDF2, as SALT:BASE64.
func decrypt(password, sealed string) ([]byte, error) {
	salt, text, ok := strings.Cut(sealed, ":")
	data, err := base64.StdEncoding.DecodeString(text)
	if !ok || err != nil {
		return nil, errors.New("not as K3s encrypts")
	}
	key, err := pbkdf2.Key(sha1.New, password, []byte(salt), 4096, 32)
	if err != nil {
		return nil, err
	}
	block, err := aes.NewCipher(key)
	if err != nil {
		return nil, err
	}
	gcm, err := cipher.NewGCM(block)
	if err != nil || len(data) < gcm.NonceSize() {
		return nil, errors.New("not as K3s encrypts")
	}
	return gcm.Open(nil, data[:gcm.NonceSize()], data[gcm.NonceSize():], nil)
}
