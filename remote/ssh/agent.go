package ssh

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"

	xssh "golang.org/x/crypto/ssh"
	"golang.org/x/crypto/ssh/agent"
)

// AgentSigners returns a signer for each key of the SSH agent that listens on socket, which is
// usually $SSH_AUTH_SOCK. Each signature opens a new connection to the agent, so nothing stays
// open in between; the signers work until ctx ends.
func AgentSigners(ctx context.Context, socket string) ([]xssh.Signer, error) {
	if socket == "" {
		return nil, errors.New("SSH agent: SSH_AUTH_SOCK is not set: start one with eval \"$(ssh-agent)\", or give a private key")
	}
	var signers []xssh.Signer
	err := withAgent(ctx, socket, func(a agent.ExtendedAgent) error {
		keys, err := a.List()
		for _, k := range keys {
			public, err := xssh.ParsePublicKey(k.Marshal())
			if err != nil {
				continue // of an unknown type, so not usable
			}
			signers = append(signers, &agentSigner{ctx: ctx, socket: socket, key: public})
		}
		return err
	})
	if err != nil {
		return nil, err
	}
	if len(signers) == 0 {
		return nil, fmt.Errorf("SSH agent %s has no keys: add one with ssh-add", socket)
	}
	return signers, nil
}

// withAgent runs f with a connection to the agent, which ends when ctx does.
func withAgent(ctx context.Context, socket string, f func(agent.ExtendedAgent) error) error {
	c, err := new(net.Dialer).DialContext(ctx, "unix", socket)
	if err != nil {
		return fmt.Errorf("SSH agent: %w", err)
	}
	defer func() { _ = c.Close() }()
	defer context.AfterFunc(ctx, func() { _ = c.Close() })()
	err = f(agent.NewClient(c))
	if err != nil && ctx.Err() != nil {
		return interruptionError(ctx, "asking the SSH agent")
	}
	if err != nil {
		return fmt.Errorf("SSH agent %s: %w", socket, err)
	}
	return nil
}

// agentSigner is a key whose private half only the agent has. It stores the context of its
// connect, because signing takes no context.
type agentSigner struct {
	ctx    context.Context
	socket string
	key    xssh.PublicKey
}

var _ xssh.MultiAlgorithmSigner = (*agentSigner)(nil)

func (s *agentSigner) PublicKey() xssh.PublicKey { return s.key }

// Algorithms omits SHA-1, which an agent would still offer.
func (s *agentSigner) Algorithms() []string { return hostKeyAlgorithms([]xssh.PublicKey{s.key}) }

func (s *agentSigner) Sign(rand io.Reader, data []byte) (*xssh.Signature, error) {
	return s.SignWithAlgorithm(rand, data, s.Algorithms()[0])
}

func (s *agentSigner) SignWithAlgorithm(_ io.Reader, data []byte, algorithm string) (*xssh.Signature, error) {
	var flags agent.SignatureFlags
	switch algorithm {
	case xssh.KeyAlgoRSASHA256:
		flags = agent.SignatureFlagRsaSha256
	case xssh.KeyAlgoRSASHA512:
		flags = agent.SignatureFlagRsaSha512
	}
	var signature *xssh.Signature
	err := withAgent(s.ctx, s.socket, func(a agent.ExtendedAgent) (err error) {
		signature, err = a.SignWithFlags(s.key, data, flags)
		return err
	})
	return signature, err
}
