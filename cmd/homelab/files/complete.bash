# Completion of "go tool mage" and "mage" for bash: source it in ~/.bashrc.
_homelab_words={{.Words}}

case $(complete -p go 2>/dev/null) in
    *_homelab_mage*) ;;
    *' -F '*)
        _homelab_go=$(complete -p go)
        _homelab_go=${_homelab_go##* -F }
        _homelab_go=${_homelab_go%% *}
        ;;
esac

_homelab_mage() {
    local line=${COMP_LINE:0:COMP_POINT} mage=mage cur prefix='' word
    local -a words
    read -ra words <<<"$line"
    if [[ $line == *[[:space:]] ]]; then words+=(''); fi
    cur=${words[${#words[@]} - 1]}
    if [[ $1 == go ]]; then
        if ((${#words[@]} < 4)) || [[ "${words[1]} ${words[2]}" != 'tool mage' ]]; then
            if [[ -n ${_homelab_go-} ]]; then "$_homelab_go" "$@"; fi
            return
        fi
        mage='go tool mage'
        words=("${words[@]:2}")
    fi
    words=("${words[@]:1:${#words[@]}-2}")
    COMPREPLY=()
    if [[ $cur == -*=* ]]; then
        if [[ $COMP_WORDBREAKS != *=* ]]; then prefix=${cur%%=*}=; fi
        while IFS= read -r word; do COMPREPLY+=("$prefix$word"); done < <(compgen -f -- "${cur#*=}")
        compopt -o filenames 2>/dev/null
        return
    fi
    if [[ $COMP_WORDBREAKS == *:* ]]; then prefix=${cur%"${cur##*:}"}; fi # bash completes what follows the last colon
    while IFS=$'\t' read -r word _; do
        if [[ $word == "$cur"* ]]; then COMPREPLY+=("${word#"$prefix"}"); fi
    done < <(sh -c "$_homelab_words" homelab "$mage" "$cur" "${words[@]}")
    if [[ ${#COMPREPLY[@]} == 1 && ${COMPREPLY[0]} == *= ]]; then compopt -o nospace 2>/dev/null; fi
}
complete -o default -F _homelab_mage go
complete -F _homelab_mage mage
