package peers

import (
	"testing"

	"github.com/stretchr/testify/assert"
)

func TestATargetThatWasRescuedHasFailed(t *testing.T) {
	const fine = "TASK [x]\nok: [localhost]\nPLAY RECAP\nlocalhost : ok=4 failed=0 rescued=0 ignored=2\n"
	const saved = "TASK [x]\nfatal: [localhost]: FAILED! => a\n...ignoring\n\nTASK [y]\nfatal: [localhost]: FAILED! => b\n\nTASK [clean]\nok\n\n\n\n\n\nlocalhost : failed=0 rescued=1\n"
	assert.Equal(t, "pass", played(true, fine).action)
	assert.Equal(t, "fail", played(false, fine).action)
	got := played(true, saved)
	assert.Equal(t, "fail", got.action)
	assert.Contains(t, got.output, "fatal: [localhost]: FAILED! => b\n")
}
