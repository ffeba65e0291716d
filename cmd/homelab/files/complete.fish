# Completion of "go tool mage" and "mage" for fish: save it as ~/.config/fish/completions/mage.fish
# and source it in ~/.config/fish/config.fish.
set -g __homelab_words {{.Words}}

function __homelab_mage
    set -l words (commandline -opc)
    set -l mage mage
    if test "$words[1]" = go
        set mage 'go tool mage'
        set -e words[1..3]
    else
        set -e words[1]
    end
    set -l cur (commandline -ct)
    if string match -q -- '-*=*' "$cur"
        set -l flag (string replace -r -- '=.*' '=' "$cur")
        for file in (__fish_complete_path (string replace -r -- '^[^=]*=' '' "$cur"))
            echo $flag$file
        end
        return
    end
    sh -c "$__homelab_words" homelab "$mage" "$cur" $words
end

function __homelab_is_mage
    set -l words (commandline -opc)
    test (count $words) -ge 3; and test "$words[1..3]" = 'go tool mage'
end

complete -c mage -f -a '(__homelab_mage)'
complete -c go -n __homelab_is_mage -f -a '(__homelab_mage)'
