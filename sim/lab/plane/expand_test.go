package plane

import (
	"testing"

	"github.com/stretchr/testify/assert"
)

// The answers are those of k8s.io/kubernetes, third_party/forked/golang/expansion.
func TestExpand(t *testing.T) {
	env := map[string]string{"A": "1", "B": "$(A)", "E": ""}
	for text, want := range map[string]string{
		"": "", "$": "$", "a$": "a$", "plain": "plain", "$(A)": "1", "-$(A)-$(A)": "-1-1", "$(B)": "$(A)", "$(E)": "",
		"$(NONE)": "$(NONE)", "$$": "$", "$$(A)": "$(A)", "$$$(A)": "$1", "$$$$(A)": "$$(A)", "$A": "$A", "$(A": "$(A", "$(": "$(",
		"$(A)$(NONE)$(A)": "1$(NONE)1", "$($(A))": "$($(A))", "()": "()", "$()": "$()",
	} {
		assert.Equal(t, want, expand(text, env), text)
	}
}
