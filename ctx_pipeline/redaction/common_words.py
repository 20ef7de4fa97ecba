"""Words that stand in most texts about programs: a login of that name is told as a login alone."""

from __future__ import annotations

_TEXT = """
able about above absolute abstract accept accepted accepts access accessed according account accounts across act action active
actual actually add added adding addition additional address addresses adds after again against agent agents algorithm alias
aliases alive all allow allowed allowing allows almost alone along already also alternate alternative although always among amount
and android anew another answer answers any anything anyway anywhere apart appear appears append appended apple application
applied applies apply appropriate arbitrary archive are arg args argument arguments around array ask asked asks assert asset
assigned assignment associated assume assumed assuming async asynchronous asyncio attempt attempts attribute attributes
automatically available avoid avoids await away back backend backslash backup backward backwards bad bare base based basic because
become becomes been before begin beginning begins behavior behaviour behind being below beside best better between beyond big
binary bit bits blank block blocking blocks body bogus boolean both bound branch branches break breaks broken browser buffer
buffered buffers bug build builder building builds built builtin but byte bytes cache cached calculated call callable callback
called caller calling calls came can cannot capture captured care carry case cases catch caught cause caused causes cell certain
chain change changed changes character characters chars check checked checking checks child children choose chosen chunk chunks
circular class classes clean clear client clients close closed closing cloud code codes collected collection colon column columns
come comes command commands comment comments commits common commonly compare compared compares comparing comparison comparisons
compatibility compatible compile compiled compiler complete completed completion complex complicated component components
compressed compression compute computed computer concrete condition conditions config configuration configured connect connected
connection connections consider considered consistent consisting consists constant constants construct constructed constructor
consumed contain contained container containing contains content contents context continue control controls convenience convention
conversion convert converted converts copied copies copy copyright core coroutine correct correctly corresponding corresponds cost
costs could count counted counts cover create created creates creating creation current currently custom cut cycle cycles data
database date day days deal debug debugging decide decimal declared decode decoded decoding decorated decorator def default
defaults define defined defines defining definition definitions delay delete deleted demo depend depending depends deploy
deprecated derived describe described describing description descriptor descriptors design designer desired desktop detail details
detect determine determined determines developer device dict dictionaries dictionary dicts did differ difference differences
different differs digits direct directly directories directory disabled discarded disk display displayed distinguish distribute
distribution doc docs docstring docstrings document documentation documented does doing done dot dotted double down drawn drive
drop due dummy duplicate duplicates during each earlier early easier easy effect eight either element elements else embedded empty
enable enabled encoded encoding encodings encountered end ended ending ends engineer enough ensure ensures entered entire entries
entry environment equal equivalent error errors escape escaped escapes especially etc even event events ever every everything
exact exactly example examples except exception exceptions executable execute executed executing execution exist existing exists
exit exits expanded expect expected expects expensive explicit explicitly export expression expressions extended extension
extensions external extra extract fact factory fail failed fails failure failures fall fallback false family far fast faster
feature features few fewer field fields figure figures file filename filenames files filesystem fill filled filter filters final
finally finance find finding findings finds fine finished first fit five fix fixed flag flags float floats folder follow followed
following follows foo for force forget fork form format formats formatted formatting former forms forward found four frame frames
free from front frontend full fully func function functionality functions further future game games general generally generate
generated generator generic get gets getting give given gives giving global globals goes going gone good got granted graph greater
group groups guaranteed hack had half hand handle handled handler handles handling happen happens hard has hash hashable have
having head header headers held help helper here hereby high higher history hit hold holds home homes hook hooks host hosts hour
how however http https idea identical identifier identifiers ignore ignored ignoring immediately implement implementation
implemented implementing implements import important imported importing importlib imports include included includes including
indent indented index indicate indicates indicating individual info information inherit inherited initial initialization
initialized input insert inside install installation installed instance instances instantiate instantiated instead int integer
integers intended interactive interface interfaces internal internally interpreted interpreter into ints invalid invoke invoked
issue issues item items iterable iteration iterator its itself java job join just keep keeps kept key keys keyword kind kinds know
known knows kwargs language laptop large larger last late later latter leading least leave leaves leaving left legacy length less
lessons let lets letter letters level levels libraries library lies like likely limit limited limits line lines link links linux
list listed listing lists literal literals little live load loaded loader loading local locale locals location lock locks log
logging logic long longer longest look looked looking looks lookup loop loops lost lower lowercase machine made magic main make
makes making manager manually many map mapping maps marked marker marketing marks master match matched matches matching matter
maximum maybe mean meaning means meant measured mechanism member members memories memory merge merged message messages met
metadata method methods middle might minus minutes missing mobile mode model modification modified modify module modules moment
monitor month more most mostly move moved msg much multiple music must mutable name named names namespace native necessarily
necessary need needed needs negative neither nested network never new newer newest newline newlines next nice nobody none nor
normal normalized normally not note notes nothing notice now null number numbers numeric object objects obtain obtained occur
occurred occurs off office offset often old older omitted once one ones only open opened opening opens operating operation
operations operator optimization option optional optionally options order origin original other others otherwise our out output
outputs outside over overhead overridden override overrides overriding own owner package packages page pair pairs parameter
parameters parent parse parsed parser parsing part partial particular parts pass passed passes passing password past patch path
pathname paths pattern patterns people per perform performance performed perhaps period permission permissions person photo photos
pickling piece pieces pipe place places plain platform platforms playground plus point pointer points policy port position
positional positive possibility possible possibly potential potentially precision prefix present prevent previous previously
primary print printed printing prints prior priority private probably problem problems process processed processes processing
produce produced produces production program programs project prompt prompts proper properly properties property protocol provide
provided provides proxy public published pure purpose purposes pushed put python query question queue quite quote quoted quotes
raise raised raises raising ran random range rather raw reach reached reaches read readable reader reading reads ready real really
reason reasonable reasons received recent recognized recommended record recorded records recursion recursive recursively reduce
refer reference referenced references refused regardless register registered registry regular reject related relative release
releases relevant rely remaining remains remote remove removed removes renamed repeated repeats replace replaced replacement
replaces replacing replica report reported reports repository represent representation represented representing represents request
requested requests require required requires reserved reset resolved resource respectively response rest restore result resulting
results resume retrieved return returned returning returns reverse right robot root routine row rows rule rules run running runs
runtime rust safe said sales same sample samples sandbox save saved say says scope script scripts search searched searches second
seconds secrets section security see seems seen select selected self semantics send sending sends sense sent separate separated
separator separators sequence sequences server servers service session sessions set sets setting settings setup seven several
share shared shell short should show shown shows shutdown side sign signal signals signature signatures silently similar simple
simply since single six size sizes skip skipped slash slightly slow small smaller socket sockets software some someone something
sometimes soon sort sorted source sources space spaces spec special specific specification specified specifies specify specifying
speed split stack staff staging stand standard stands start started starting starts startup state statement statements static
status stay stays stderr stdin stdout step steps still stop storage store stored stores stream streams strict string strings strip
stripped structure structures student studio stuff style subclass subclassed subclasses subject subprocess subsequent subset
succeed success successful successfully such suffix suitable suite summary supplied support supported supporting supports suppress
sure switch symbolic symbols sync syntax sys system systems tab table tables tag take taken takes taking target task tasks tell
tells temp temporary ten terminal terminated terms test tested testing tests text texts than that the their them themselves then
there therefore these they thing things think third this those though thread threads three through thus time timeout times
timestamp title together token tokens told too took tool tools top total trace traceback trailing transcripts transport treat
treated tree trick tried tries true truncated try trying tuple tuples turn turned turns twice two type typed types typically
typing unchanged undefined under underlying unexpected unicode unique unit unknown unless unlike unsupported until update updated
upon upper usable usage use used useful user users uses using usual usually utility valid validate value values variable variables
various verify version versions very via video view visible wait waiting waits want wants warning warnings was way ways web week
well went were what whatever when whenever where whereas whether which while whitespace who whole whose why width window windows
with within without word words work worker working works worth would wrap wrapped wrapper writable write writes writing written
wrong wrote yet yield you your zero
"""

COMMON_WORDS = frozenset(_TEXT.split())
