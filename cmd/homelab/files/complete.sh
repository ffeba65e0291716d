# Prints words that may come next on the command line of Mage, a line each: the word, a tab,
# what it is. A word that ends with = wants a value. What Mage has printed is kept, for a day at
# most and while no source in the folder is newer.
# Arguments: the command of Mage, the word to complete, and the words between them.
mage=$1 cur=$2
shift 2
dir=. option= before=
for word; do
    if [ -n "$option" ]; then
        if [ "$option" = -d ]; then dir=$word; fi
        option=
        continue
    fi
    case $word in
        -d | -w | -t) option=$word ;;
        *) before="$before $word" ;;
    esac
done
if [ -n "$option" ]; then exit 0; fi
case $dir in "~/"*) dir=$HOME/${dir#"~/"} ;; esac
cd "$dir" 2>/dev/null || exit 0
cache=${XDG_CACHE_HOME:-$HOME/.cache}/homelab/completion/$(printf %s "$mage $PWD" | cksum | tr ' ' -)
umask 077
mkdir -p "$cache" 2>/dev/null || exit 0

# kept FILE ARGUMENTS… prints what Mage prints.
kept() {
    file=$cache/$1
    shift
    if [ ! -s "$file" ] || [ -n "$(find "$file" -mtime +0; find go.mod ./*.go magefiles/*.go targets/*.go -newer "$file" 2>/dev/null)" ]; then
        $mage "$@" >"$file.$$" 2>/dev/null </dev/null && mv "$file.$$" "$file" || rm -f "$file.$$" "$file"
    fi
    cat "$file" 2>/dev/null
}

targets() {
    kept list -l | awk '/^Targets:/ { on = 1; next } on && /^  [^ ]/ { n = $1; sub(/\*$/, "", n); $1 = ""; sub(/^ /, ""); print n "\t" $0 }'
}

case $cur in
    -*) ;;
    *)
        targets
        exit 0
        ;;
esac
target=$(targets | awk -v before="$before" 'BEGIN { n = split(before, word, " ") }
{ for (i = 1; i <= n; i++) if (tolower(word[i]) == tolower($1)) at[i] = $1 }
END { for (i = n; i > 0; i--) if (i in at) { print at[i]; exit } }')
if [ -z "$target" ]; then
    printf '%s\t%s\n' -l 'list the targets' -h 'show a target and its flags' -d 'folder of the magefile' \
        -w 'folder to work in' -t 'stop after this time' -v 'say what runs' -f 'compile again'
    exit 0
fi
printf '%s\t%s\n' -h 'show what it does, and its flags'
kept "$target" -h "$target" | awk '/^Usage:/ { on = 1 }
on && match($0, /-[A-Za-z0-9_]+=<[a-zA-Z0-9.]+>/) {
    name = substr($0, RSTART, RLENGTH); help = substr($0, RSTART + RLENGTH)
    sub(/^\]?[ \t]*/, "", help)
    bool = name ~ /=<bool>$/
    sub(/=.*/, bool ? "" : "=", name)
    if (!(name in about)) order[++n] = name
    about[name] = help
}
END { for (i = 1; i <= n; i++) print order[i] "\t" about[order[i]] }'
