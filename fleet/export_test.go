package fleet

// Merge works out how a folder becomes what it should be.
func Merge(have, want Tree) (changes []Change, foreign []ForeignFile, err error) {
	return merge(have, want)
}
