package suggest

import (
	"fmt"
	"strings"
)

// Nearest returns the most similar known name, or "" if none is similar: up to every third
// letter may be wrong.
func Nearest(name string, known []string) string {
	plain := Normalize(name)
	best, least := "", 1+max(1, len(plain)/3)
	for _, k := range known {
		if d := distance(plain, Normalize(k)); d < least {
			best, least = k, d
		}
	}
	return best
}

// Normalize removes common variations of names: case, hyphens and underscores.
func Normalize(s string) string {
	return strings.NewReplacer("-", "", "_", "").Replace(strings.ToLower(s))
}

// distance is the number of single edits (a letter more, less, other, or two
// neighbours swapped) between a and b: optimal string alignment.
func distance(a, b string) int {
	if len(a) > 64 || len(b) > 64 {
		return max(len(a), len(b))
	}
	x, y := []rune(a), []rune(b)
	before, last := []int(nil), make([]int, len(y)+1)
	for j := range last {
		last[j] = j
	}
	for i := 1; i <= len(x); i++ {
		row := make([]int, len(y)+1)
		row[0] = i
		for j := 1; j <= len(y); j++ {
			same := 1
			if x[i-1] == y[j-1] {
				same = 0
			}
			row[j] = min(last[j]+1, row[j-1]+1, last[j-1]+same)
			if i > 1 && j > 1 && x[i-1] == y[j-2] && x[i-2] == y[j-1] {
				row[j] = min(row[j], before[j-2]+1)
			}
		}
		before, last = last, row
	}
	return last[len(y)]
}

// Cure returns the cure for an unknown word: the likely one, or all of them.
func Cure(name string, known []string) string {
	if s := Nearest(name, known); s != "" {
		return fmt.Sprintf("did you mean %q?", s)
	}
	return "write " + JoinOr(known)
}

// JoinOr joins words as in "a, b or c".
func JoinOr(words []string) string {
	if len(words) < 2 {
		return strings.Join(words, "")
	}
	return strings.Join(words[:len(words)-1], ", ") + " or " + words[len(words)-1]
}

// FirstOf names the first of many.
func FirstOf(names []string) string {
	const most = 4
	if len(names) > most {
		return fmt.Sprintf("%s and %d more", strings.Join(names[:most], ", "), len(names)-most)
	}
	return strings.Join(names, ", ")
}
