# Completion for fish. It is made from the table of flags: see crawler -h.
function __crawler_is --description 'the subcommand of the line is this one; empty: it has none'
    set -l words (commandline -opc)
    if contains -- "$words[2]" {{join .Subcommands " "}}
        test "$words[2]" = "$argv[1]"
    else
        test -z "$argv[1]"
    end
end
function __crawler_first
    test (count (commandline -opc)) -eq 1
end
complete -c crawler -f
{{- range .Commands}}{{if .Name}}
complete -c crawler -n '__crawler_first' -a {{.Name}} -d '{{fish .Usage}}'
complete -c crawler -n '__crawler_is help' -a {{.Name}} -d '{{fish .Usage}}'
{{- end}}{{end}}
{{- range .Commands}}{{if .Files}}
complete -c crawler -n '__crawler_is {{.Name}}' -F
{{- end}}{{end}}
{{- range .Commands}}{{$name := .Name}}{{range .Flags}}
complete -c crawler -n '__crawler_is "{{$name}}"' -o {{slice .Name 1}}
{{- if eq .Takes "list"}} -x -a '(__fish_append , {{.Words}})'
{{- else if eq .Takes "words"}} -x -a '{{.Words}}'
{{- else if eq .Takes "file"}} -r -F
{{- else if eq .Takes "folder"}} -x -a '(__fish_complete_directories)'
{{- else if .Takes}} -x
{{- end}} -d '{{fish .Usage}}'
{{- end}}{{end}}
