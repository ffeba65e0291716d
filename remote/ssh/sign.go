package ssh

import (
	"crypto/rand"
	"crypto/sha512"
	"encoding/pem"
	"errors"
	"fmt"

	xssh "golang.org/x/crypto/ssh"
)

// Signatures are those of ssh-keygen -Y sign (PROTOCOL.sshsig of OpenSSH).
const (
	signatureMagic = "SSHSIG"
	signatureHash  = "sha512"
	signatureBlock = "SSH SIGNATURE"
)

// signedData is what a key signs for a message.
type signedData struct {
	Magic     [6]byte
	Namespace string
	Reserved  string
	Hash      string
	Sum       string
}

// signature is what is inside the block.
type signature struct {
	Magic     [6]byte
	Version   uint32
	PublicKey string
	Namespace string
	Reserved  string
	Hash      string
	Signature string
}

func magic() (m [6]byte) {
	copy(m[:], signatureMagic)
	return m
}

func signedMessage(namespace string, message []byte) []byte {
	sum := sha512.Sum512(message)
	return xssh.Marshal(signedData{Magic: magic(), Namespace: namespace, Hash: signatureHash, Sum: string(sum[:])})
}

// Sign signs a message as ssh-keygen -Y sign does. The namespace says what it is for: a signature
// proves nothing in another, and none is one of a login.
func Sign(by xssh.Signer, namespace string, message []byte) ([]byte, error) {
	var sig *xssh.Signature
	var err error
	// Without this an RSA key signs with SHA-1, which the format forbids.
	if rsa, ok := by.(xssh.AlgorithmSigner); ok && by.PublicKey().Type() == xssh.KeyAlgoRSA {
		sig, err = rsa.SignWithAlgorithm(rand.Reader, signedMessage(namespace, message), xssh.KeyAlgoRSASHA512)
	} else {
		sig, err = by.Sign(rand.Reader, signedMessage(namespace, message))
	}
	if err != nil {
		return nil, fmt.Errorf("ssh: sign with the key %s: %w", xssh.FingerprintSHA256(by.PublicKey()), err)
	}
	return pem.EncodeToMemory(&pem.Block{Type: signatureBlock, Bytes: xssh.Marshal(signature{
		Magic: magic(), Version: 1, PublicKey: string(by.PublicKey().Marshal()), Namespace: namespace,
		Hash: signatureHash, Signature: string(xssh.Marshal(sig)),
	})}), nil
}

// VerifySignature returns the key whose signature of a message this is. Who has that key is another
// question.
func VerifySignature(namespace string, message, block []byte) (xssh.PublicKey, error) {
	wrong := errors.New("its signature is none of OpenSSH's for " + namespace)
	p, _ := pem.Decode(block)
	if p == nil || p.Type != signatureBlock {
		return nil, wrong
	}
	var s signature
	if err := xssh.Unmarshal(p.Bytes, &s); err != nil || s.Magic != magic() || s.Version != 1 || s.Namespace != namespace || s.Hash != signatureHash {
		return nil, wrong
	}
	key, err := xssh.ParsePublicKey([]byte(s.PublicKey))
	if err != nil {
		return nil, fmt.Errorf("the key of its signature: %w", err)
	}
	var sig xssh.Signature
	if err := xssh.Unmarshal([]byte(s.Signature), &sig); err != nil || sig.Format == xssh.KeyAlgoRSA {
		return nil, wrong
	}
	if err := key.Verify(signedMessage(namespace, message), &sig); err != nil {
		return nil, fmt.Errorf("its signature does not match: %w", err)
	}
	return key, nil
}
