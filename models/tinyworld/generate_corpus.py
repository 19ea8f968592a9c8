#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Deterministic generator of the demo model's training text.

Standard library only.  Everything below (word lists, sentence patterns,
plots, questions) is hand-written for this project; no outside text is used.

    python3 generate_corpus.py --out corpus.txt --val val.txt --mb 32 --seed 1

Documents are separated by the literal string <|endoftext|> on its own.
Pattern language: [a|b|c] picks one alternative (may nest), {X} or {X.attr}
fills a slot of the story's world, a trailing ^ ({X^}) capitalises.
"""
import argparse
import json
import random
import re

# ------------------------------------------------------------------ lexicon
GIRLS = """Anna Mia Lily Ella Nora Zoe Ruby Ivy Clara Rosa Emma Luna Maya Alice Daisy Olive Poppy
Hazel Lucy Molly Tess Wendy Stella Sara Nina June Fern Amy Bella Cleo Dora Eva Greta Hana Iris""".split()
BOYS = """Ben Tom Sam Max Leo Finn Oscar Hugo Theo Jack Noah Adam Felix Milo Otto Paul Ravi Toby
Eli Dan Kai Luke Omar Pip Rex Gus Hank Ivan Joel Karl Lars Nico Owen Peter Rowan""".split()

# species: (noun, home noun, food, group)
ANIMALS = [
    ("fox", "den", "berries"), ("rabbit", "burrow", "carrots"), ("bear", "cave", "honey"),
    ("mouse", "hole", "cheese"), ("owl", "hollow tree", "seeds"), ("frog", "pond", "flies"),
    ("duck", "pond", "bread"), ("hedgehog", "nest of leaves", "worms"), ("squirrel", "tall oak", "nuts"),
    ("turtle", "pond", "leaves"), ("cat", "basket", "fish"), ("dog", "kennel", "bones"),
    ("pig", "pen", "apples"), ("goat", "shed", "grass"), ("horse", "stable", "hay"), ("lamb", "barn", "grass"),
    ("deer", "glade", "leaves"), ("wolf", "den", "meat"), ("badger", "burrow", "roots"),
    ("beaver", "lodge", "bark"), ("otter", "river bank", "fish"), ("bird", "nest", "seeds"),
    ("robin", "nest", "worms"), ("crow", "nest", "corn"), ("goose", "yard", "grass"), ("hen", "coop", "corn"),
    ("snail", "garden", "leaves"), ("bee", "hive", "nectar"), ("ant", "hill of sand", "crumbs"),
    ("lion", "cave", "meat"), ("tiger", "jungle", "meat"), ("elephant", "valley", "leaves"),
    ("monkey", "big tree", "bananas"), ("giraffe", "wide plain", "leaves"), ("panda", "bamboo wood", "bamboo"),
    ("penguin", "icy shore", "fish"), ("seal", "icy shore", "fish"), ("whale", "deep sea", "tiny shrimp"),
    ("crab", "rock pool", "weeds"), ("parrot", "big tree", "fruit"), ("donkey", "stable", "hay"),
    ("kitten", "basket", "milk"), ("puppy", "kennel", "bones"), ("mole", "tunnel", "worms"),
    ("bat", "dark cave", "moths"), ("swan", "lake", "weeds"), ("koala", "gum tree", "leaves"),
    ("camel", "desert", "dry grass"), ("lizard", "warm wall", "flies"), ("moth", "old coat", "wool"),
]
FANTASY = [("dragon", "cave", "hot soup"), ("robot", "workshop", "oil"), ("giant", "mountain", "big pies"),
           ("fairy", "flower", "dew"), ("elf", "hollow tree", "nuts"), ("wizard", "tower", "soup"),
           ("witch", "hut", "mushrooms"), ("unicorn", "glade", "apples"), ("troll", "bridge", "stew"),
           ("ghost", "attic", "nothing at all"), ("king", "castle", "cake"), ("princess", "castle", "cherries"),
           ("prince", "castle", "pears"), ("queen", "castle", "grapes"), ("knight", "castle", "bread"),
           ("pirate", "ship", "fish"), ("mermaid", "deep sea", "weeds"), ("snowman", "white field", "ice")]
SPECIES_PRON = {"king": "m", "prince": "m", "wizard": "m", "snowman": "m", "queen": "f", "princess": "f",
                "witch": "f", "mermaid": "f", "hen": "f"}
TRAITS = """little small brave kind curious clever shy quiet happy gentle funny young busy sleepy cheerful
friendly careful playful proud lonely hungry polite tiny merry""".split()
COLORS = "red blue green yellow white black brown pink purple orange gray golden silver".split()
OBJ_ADJ = "old new tiny big shiny round soft pretty wooden little bright".split()
TOYS = """ball kite doll drum boat hat scarf bell book lamp ring key button ribbon spoon whistle cup coat
umbrella basket bucket rope mirror clock flute map box coin feather shell stone blanket pillow boot mitten
teapot candle pencil brush wagon puzzle crown pearl lantern bag jar ladder mask marble top bow pot
necklace violin sled bracelet""".split()
FOODS = """apple pear pie cake carrot plum cherry peach cookie muffin nut pumpkin turnip potato banana
orange lemon melon sandwich biscuit bun pancake tart mushroom""".split()
PLACES = [("in", "forest"), ("by", "river"), ("on", "farm"), ("on", "hill"), ("in", "garden"), ("by", "lake"),
          ("in", "village"), ("on", "beach"), ("in", "meadow"), ("at", "market"), ("in", "park"), ("in", "barn"),
          ("in", "valley"), ("by", "sea"), ("in", "cave"), ("on", "mountain"), ("by", "pond"), ("at", "mill"),
          ("in", "castle"), ("at", "school"), ("in", "kitchen"), ("in", "library"), ("at", "harbor"),
          ("on", "island"), ("in", "orchard"), ("by", "waterfall"), ("at", "bakery"), ("in", "tower"),
          ("on", "bridge"), ("in", "field"), ("by", "well"), ("in", "town"), ("at", "old gate"),
          ("in", "attic"), ("by", "stream"), ("in", "yard"), ("at", "big oak"), ("in", "swamp"),
          ("in", "snowy wood"), ("on", "road"), ("in", "workshop"), ("at", "shop"), ("in", "desert"),
          ("in", "jungle"), ("by", "fountain"), ("in", "cellar"), ("at", "lighthouse"), ("on", "roof"),
          ("in", "greenhouse"), ("at", "campfire")]
SPOTS = ["under a leaf", "behind a big rock", "inside a hollow tree", "under the bed", "inside an old boot",
         "behind the door", "under a bench", "in a pile of leaves", "on a low branch", "under a bush",
         "behind the curtain", "in a bird's nest", "between two stones", "in the tall grass", "under the bridge",
         "next to a mushroom", "in a puddle", "at the bottom of a basket", "on top of a wall", "under a blanket",
         "behind the well", "in the long reeds", "near an ant hill", "under the steps", "in a flower pot"]
WEATHER = ["sunny", "windy", "rainy", "snowy", "cloudy", "foggy", "warm", "cold", "bright", "gray"]
ELDERS = [("the old owl", "he"), ("the wise turtle", "she"), ("the baker", "he"), ("the miller", "he"),
          ("the farmer", "she"), ("the old gardener", "he"), ("the teacher", "she"), ("the fisherman", "he"),
          ("the gray goose", "she"), ("the old badger", "he"), ("the kind queen", "she"), ("the tailor", "he"),
          ("Grandmother", "she"), ("Grandfather", "he"), ("Aunt May", "she"), ("Uncle Bo", "he"),
          ("the old bear", "he"), ("the mother hen", "she"), ("the shepherd", "she"), ("the clock maker", "he")]
SKILLS = [("swim", "swam", "swimming", "by", "pond"), ("sing", "sang", "singing", "on", "hill"),
          ("dance", "danced", "dancing", "in", "barn"), ("bake bread", "baked bread", "baking", "in", "kitchen"),
          ("draw", "drew", "drawing", "in", "garden"), ("skate", "skated", "skating", "on", "lake"),
          ("climb", "climbed", "climbing", "in", "orchard"), ("read", "read", "reading", "in", "library"),
          ("juggle", "juggled", "juggling", "in", "park"), ("whistle", "whistled", "whistling", "in", "meadow"),
          ("row a boat", "rowed a boat", "rowing", "by", "river"), ("ride a bike", "rode a bike", "riding", "on", "road"),
          ("play the flute", "played the flute", "playing", "in", "tower"), ("jump rope", "jumped rope", "jumping", "in", "yard"),
          ("tie a knot", "tied a knot", "tying knots", "at", "harbor"), ("paint", "painted", "painting", "in", "attic")]
FEARS = [("the dark", "in the dark", "the night was full of stars"), ("deep water", "near deep water", "the water was cool and calm"),
         ("thunder", "in the storm", "the thunder was only a big drum in the sky"),
         ("high places", "high up", "the view from the top was lovely"), ("loud noises", "near the noise", "the noise was only the wind"),
         ("spiders", "near spiders", "the spider only wanted to spin"), ("the big dog", "near the big dog", "the big dog only wanted to play"),
         ("the old cellar", "in the old cellar", "the cellar was full of jam"), ("the snow", "in the snow", "the snow was soft and bright"),
         ("the tall bridge", "on the tall bridge", "the bridge was strong"), ("the deep forest", "in the deep forest", "the forest was full of songs")]
BUILDS = [("tree house", "boards", "nails", "rope"), ("raft", "logs", "rope", "a sail"), ("snow fort", "snow", "a shovel", "a flag"),
          ("kite", "paper", "sticks", "string"), ("bird house", "boards", "nails", "straw"), ("sand castle", "sand", "shells", "a flag"),
          ("bridge", "logs", "stones", "rope"), ("wagon", "wheels", "boards", "nails"), ("boat", "boards", "a sail", "rope"),
          ("scarecrow", "straw", "a hat", "an old coat"), ("swing", "a board", "rope", "a strong branch"),
          ("puppet show", "socks", "buttons", "a box"), ("drum", "a pot", "a cloth", "string"), ("lantern", "paper", "a candle", "wire"),
          ("windmill", "paper", "a stick", "a pin")]
SEEDS = [("sunflower", "tall and yellow"), ("pumpkin", "round and orange"), ("rose", "red and sweet"), ("apple tree", "full of red apples"),
         ("bean plant", "higher than the roof"), ("tulip", "pink and bright"), ("melon", "big and green"), ("cherry tree", "white with flowers"),
         ("carrot", "long and crisp"), ("turnip", "as big as a wagon"), ("lemon tree", "full of yellow lemons"), ("bluebell", "small and blue")]
NOISES = [("tap, tap, tap", "a branch on the window"), ("scratch, scratch", "a tiny mouse with a crumb"), ("hoo, hoo", "an owl on the roof"),
          ("drip, drip, drip", "water from the roof"), ("bump, bump", "a loose door"), ("squeak, squeak", "an old wheel"),
          ("rustle, rustle", "a hedgehog in the leaves"), ("boom, boom", "a drum in the village"), ("swish, swish", "the wind in the trees"),
          ("clink, clink", "a spoon in a cup")]
TREASURES = ["a chest of gold coins", "a box of sweet honey cakes", "a pile of old books", "a silver bell", "a bag of magic seeds",
             "a crown with blue stones", "a jar of bright marbles", "a small golden key", "a letter from an old pirate",
             "a music box", "a basket of red apples", "a big drum", "a blanket as soft as a cloud"]
WISHES = [("to be as big as a house", "could not fit through any door", "small again"),
          ("for a hill of cake", "had a very bad tummy ache", "just one slice of bread"),
          ("to fly like a bird", "could not come down", "safe on the ground"),
          ("for snow in summer", "was cold and could not play", "warm sun again"),
          ("to be the fastest of all", "had nobody to run with", "just as fast as before"),
          ("for a hundred toys", "had no room to sleep", "only one good toy"),
          ("to talk very loud", "scared all the birds away", "a soft voice again"),
          ("to never sleep", "was tired all the time", "a soft bed"),
          ("for a house of gold", "was cold in the hard house", "the old warm house")]
LESSONS = ["it is good to share", "friends help each other", "it is good to tell the truth", "small friends can be a big help",
           "you can be brave even when you are afraid", "good things take time", "kind words are like the sun",
           "it is best to try again", "every day is better with a friend", "a little help can go a long way"]


class Char:
    def __init__(self, name, sp, g, home="house", food="soup", adj="little"):
        self.name, self.sp, self.g, self.home, self.food, self.adj = name, sp, g, home, food, adj
        self.he, self.him, self.his, self.self = (("he", "him", "his", "himself") if g == "m"
                                                  else ("she", "her", "her", "herself"))
        self.the = "the " + sp

    def __str__(self):
        return self.name


class Place:
    def __init__(self, prep, noun):
        self.n, self.the, self.at = noun, "the " + noun, prep + " the " + noun

    def __str__(self):
        return self.the


class Obj:
    def __init__(self, noun, adj):
        self.n, self.adj, self.full = noun, adj, adj + " " + noun
        self.a, self.the = "a " + adj + " " + noun, "the " + adj + " " + noun

    def __str__(self):
        return self.full


ALT = re.compile(r"\[([^\[\]]*)\]")
SLOT = re.compile(r"\{(\w+)(?:\.(\w+))?(\^?)\}")
ARTICLE = re.compile(r"\b([Aa]) (?=[aeiouAEIOU])(?!uni|use|one|Uni|eu)")
CAP = re.compile(r"(^|[.]\"? |[!?] |\n)([a-z])")


class Writer:
    def __init__(self, rng):
        self.r = rng

    def alts(self, s):
        while True:
            t = ALT.sub(lambda m: self.r.choice(m.group(1).split("|")), s)
            if t == s:
                return t
            s = t

    def fill(self, s, w):
        s = self.alts(s)

        def sub(m):
            v = w[m.group(1)]
            v = str(getattr(v, m.group(2))) if m.group(2) else str(v)
            return v[0].upper() + v[1:] if m.group(3) else v
        return SLOT.sub(sub, s)

    def tidy(self, s):
        s = re.sub(r" +", " ", s).replace(" \n", "\n").replace("\n ", "\n").strip()
        s = ARTICLE.sub(lambda m: m.group(1) + "n ", s)
        return CAP.sub(lambda m: m.group(1) + m.group(2).upper(), s)

    # -------------------------------------------------------------- world
    def char(self, used, want=None):
        r = self.r
        k = r.random()
        if want:
            sp, home, food = want
        elif k < 0.30:
            sp, home, food = "", r.choice(["house", "little house", "cottage", "tall house", "red house"]), r.choice(["soup", "pancakes", "bread with jam", "pie"])
        elif k < 0.85:
            sp, home, food = r.choice(ANIMALS)
        else:
            sp, home, food = r.choice(FANTASY)
        g = SPECIES_PRON.get(sp) or r.choice("mf")
        while True:
            name = r.choice(GIRLS if g == "f" else BOYS)
            if name not in used and sp not in used:
                break
            if sp in used and sp:
                return self.char(used)
        if not sp:
            sp = "girl" if g == "f" else "boy"
        used.update((name, sp))
        return Char(name, sp, g, home, food, r.choice(TRAITS))

    def world(self, hero=None, obj=None, place=None):
        r, used = self.r, set()
        w = {"H": self.char(used, hero)}
        used.discard("girl"), used.discard("boy")
        w["F"] = self.char(used)
        g = r.choice(ELDERS)
        w["G"] = Char(g[0], "elder", "m" if g[1] == "he" else "f")
        ps = r.sample(PLACES, 4)
        if place:
            ps = [place] + [p for p in ps if p != place][:3]
        w["P"], w["Q"], w["R"], w["T"] = (Place(*p) for p in ps)
        o = r.sample(TOYS, 2)
        if obj:
            o = [obj] + [x for x in o if x != obj][:1]
        w["O"] = Obj(o[0], r.choice(COLORS if r.random() < 0.6 else OBJ_ADJ))
        w["U"] = Obj(o[1], r.choice(COLORS if r.random() < 0.6 else OBJ_ADJ))
        f = r.sample(FOODS, 2)
        w["X"], w["Y"] = f
        w["S1"], w["S2"], w["S3"] = r.sample(SPOTS, 3)
        w["W"] = r.choice(WEATHER)
        w["L"] = r.choice(LESSONS)
        w["c1"], w["c2"] = r.sample(COLORS[:11], 2)
        w["n"] = r.choice("two three four five six seven".split())
        sk = r.choice(SKILLS)
        w["sk"], w["skd"], w["sking"], w["SP"] = sk[0], sk[1], sk[2], Place(sk[3], sk[4])
        w["fear"], w["fearat"], w["calm"] = r.choice(FEARS)
        w["B"], w["b1"], w["b2"], w["b3"] = r.choice(BUILDS)
        w["seed"], w["seedl"] = r.choice(SEEDS)
        w["noise"], w["cause"] = r.choice(NOISES)
        w["treasure"] = r.choice(TREASURES)
        w["wish"], w["bad"], w["undo"] = r.choice(WISHES)
        return w

    def story(self, w=None, plot=None, short=False):
        r = self.r
        w = w or self.world()
        steps = PLOTS[plot or r.choice(PLOT_NAMES)]
        parts = []
        for st in [OPEN, HABIT] + steps + [END]:
            if st == "¶":
                parts.append("\n")
                continue
            alts = st
            if st[0] == "?":
                alts = st[1:]
                if r.random() < (0.6 if short else 0.35):
                    continue
            parts.append(self.fill(r.choice(alts), w) + " ")
        para = r.random() < 0.6
        txt = "".join(p if p != "\n" else ("\n" if para else "") for p in parts)
        return self.tidy(txt)


# ------------------------------------------------------------------ stories
OPEN = [
    "Once upon a time, there was a {H.adj} {H.sp} named {H}. {H.he^} lived [{P.at}|in a {H.home} near {P}].",
    "Once upon a time, there was a {H.adj} {H.sp} named {H}.",
    "Once upon a time, a {H.adj} {H.sp} named {H} lived [{P.at}|in a {H.home}].",
    "Once upon a time, in a {H.home} near {P}, there lived a {H.sp} named {H}. {H.he^} was very {H.adj}.",
    "Once there was a {H.adj} {H.sp} [named|called] {H} who lived {P.at}.",
    "One {W} [day|morning|afternoon], a {H.adj} {H.sp} named {H} went to {P}.",
    "Long ago, a {H.adj} {H.sp} called {H} lived [in a {H.home}|{P.at}].",
    "{H} was a {H.adj} {H.sp}. {H.he^} lived [in a {H.home}|{P.at}|near {P}].",
    "There was once a {H.sp} [named|called] {H}. Everyone {P.at} knew that {H} was {H.adj}.",
    "Far away, near {P}, lived a {H.adj} {H.sp} named {H}.",
]
HABIT = ["?",
    "{H.he^} [liked|loved] to eat {H.food}.",
    "Every [day|morning|evening], {H.he} [went for a walk|sang a song|swept the floor|looked at the sky|ate {H.food}|counted the clouds].",
    "{H.he^} was [always|often] [busy|cheerful|hungry|in a good mood] and [liked|loved] to [sing|run|help|tell jokes|look at the stars|play].",
    "{H.he^} [loved|liked] [warm days|rain|long walks|quiet evenings|old songs|good stories] [very much|most of all|best].",
    "{H.he^} had a [soft|loud|kind|merry] voice and [bright|big|dark|warm] eyes.",
    "[Everyone|All the neighbors] liked {H.him} because {H.he} was [kind|so funny|always ready to help|good at games].",
]
END = ["?",
    "The end.", "The end.", "From that day on, {H} [knew|never forgot] that {L}.", "{H} [learned|saw|knew now] that {L}.",
    "And {H} [slept|smiled|was happy] [that night|all night|for a long time].", "It was [a very good day|the best day of all|a day to remember].",
    "That night, {H} [fell asleep with a smile|dreamed of {P}|slept very well].",
    "And so {H} went home, [tired but happy|happy and warm|with a big smile].",
]
PLOTS = {}
PLOTS["lost"] = [
    ["{H.his^} favorite thing was {O.a}.", "{H.he^} had {O.a} and took it everywhere.",
     "More than anything, {H.he} loved {H.his} {O}.", "{G^} had given {H.him} {O.a}. It was {H.his} favorite thing.",
     "For {H.his} birthday, {H.he} got {O.a}."],
    "¶",
    ["[One day|One {W} morning|Then one day], the {O.n} was [gone|lost|not there].",
     "[One day|One {W} day|One evening], {H.he} could not find the {O.n}.",
     "But [one day|one {W} morning], {H} lost the {O.n}.",
     "[One day|On a {W} day], {H.he} went to {Q} and dropped the {O.n} on the way."],
    ["{H} was [very sad|so sad|upset|worried].", "{H} [began to cry|wanted to cry|felt very sad].", "\"Oh no!\" said {H}. \"Where is my {O.n}?\"",
     "\"My {O.n} is gone!\" cried {H}.", "{H.he^} felt a lump in {H.his} throat."],
    ["{H.he^} looked {S1}, but it was not there.", "{H.he^} looked {S1}. It was not there. {H.he^} looked {S2}. It was not there.",
     "First {H.he} looked {S1}. Then {H.he} looked {S2}. There was no {O.n}.", "{H.he^} searched {Q.at} and found only {U.a}."],
    "¶",
    ["Then {H} met a {F.sp} named {F}.", "Along came {F}, a {F.adj} {F.sp}.", "{H.his^} friend {F} the {F.sp} [came by|saw {H.him}|heard {H.him}].",
     "On the way, {H.he} met {F} the {F.sp}."],
    ["\"Why are you sad?\" asked {F}. \"I lost my {O.n},\" said {H}.", "\"What is wrong?\" asked {F}. \"I can not find my {O.n},\" said {H}.",
     "\"Did you see my {O.n}?\" asked {H}. \"No,\" said {F}, \"but I can help you look.\"", "{H} told {F} about the {O.n}."],
    ["\"[Let us look together|I will help you|Do not cry],\" said {F}.", "\"Let us look {R.at},\" said {F}. \"[Two can see more than one|I think I saw it there].\"",
     "?" and "{F} [wanted to help|had an idea|took {H.his} hand]."],
    ["They walked to {R} and looked [everywhere|up and down|here and there].", "They went to {R}. They looked {S2}, and they looked [high and low|again and again].",
     "So they went to {R}, side by side."],
    ["At last, {F} saw something {O.adj} {S3}. It was the {O.n}!", "There, {S3}, was the {O.n}!", "\"Look!\" said {F}. The {O.n} was {S3}!",
     "Then {H} saw it. The {O.n} was {S3}."],
    ["{H} [was so happy|jumped for joy|laughed and danced]. \"Thank you, {F}!\" {H.he} said.", "\"Thank you!\" said {H}. {H.he^} gave {F} a big hug.",
     "{H} hugged {F} and held the {O.n} tight."],
    ["?", "They [played|laughed|sang] together until [the sun went down|it was dark|the stars came out].", "Then they shared a {X} and went home.",
     "After that, {H} always put the {O.n} in a safe place.", "From then on, {H} took good care of the {O.n}."],
]
PLOTS["share"] = [
    ["[One day|One {W} day], {H} [found|got|bought] a [big|sweet|fresh|nice] {X}.", "[One day|One morning], {G} gave {H} a [big|sweet|fresh] {X}."],
    ["\"This is all for me,\" said {H}.", "It [smelled|looked] so good that {H.he} wanted it all for {H.self}.", "{H.he^} sat down {Q.at} to eat it."],
    "¶",
    ["Then {F} the {F.sp} came by.", "Just then, a {F.adj} {F.sp} named {F} came [along|by|down the road].", "{H.his^} friend {F}, a {F.sp}, sat down next to {H.him}."],
    ["\"I am so hungry,\" said {F}. \"[May I have a bite|Can I have some|Will you share with me]?\"", "\"That is a nice {X},\" said {F}. \"May I have a piece?\"",
     "{F} had not eaten all day. \"Please, may I have a little?\" {F.he} asked."],
    ["\"No,\" said {H}. \"It is mine.\"", "{H} shook {H.his} head. \"No! It is my {X}.\"", "{H} turned away and said no.", "\"There is not enough,\" said {H}."],
    ["{F} [was sad|looked at the ground|felt sad] and walked away.", "{F} did not say a word. {F.he^} went away [slowly|with a sad face]."],
    "¶",
    ["{H} [looked at|held] the {X}, but {H.he} was not happy [at all|any more].", "Now the {X} did not taste so good.", "{H} took a bite. But it is no fun to eat alone.",
     "{H} felt bad. {H.he^} thought about {F}."],
    ["{H.he^} ran after {F}. \"Wait!\" {H.he} called. \"[I am sorry|Please come back|Let us share].\"", "So {H} went to {R} and found {F} there. \"I am sorry,\" {H.he} said.",
     "{H} ran to {R}, where {F} sat all alone. \"I was wrong,\" said {H}."],
    ["{H} cut the {X} in two and gave {F} the [bigger|bigger|sweet] half.", "They broke the {X} in two, one half for {H} and one half for {F}.", "{H} gave {F} a big piece of the {X}."],
    ["\"Thank you,\" said {F} with a smile.", "{F} smiled. \"You are a good friend,\" {F.he} said.", "\"It tastes better when we share,\" said {H}."],
    ["?", "The next day, {F} brought a {Y} and shared it too.", "They ate and laughed {Q.at}.", "Soon they were best friends."],
]
PLOTS["fear"] = [
    ["But {H} was afraid of {fear}.", "There was one thing {H} did not like. {H.he^} was afraid of {fear}.", "{H} had a secret. {H.he^} was afraid of {fear}."],
    ["?", "When {H.he} was {fearat}, {H.his} knees shook.", "{H.he^} always hid {S1}.", "The others [laughed|did not know]."],
    "¶",
    ["[One day|One {W} evening], {H.his} friend {F} the {F.sp} [got lost|was stuck|needed help] {fearat}.",
     "[One day|One {W} day], a {F.sp} named {F} called for help {fearat}.", "Then one day, {F}, a {F.adj} {F.sp}, was all alone {fearat}."],
    ["\"Help me!\" called {F}.", "\"Please help me, {H}!\" cried {F}.", "\"Is anybody there?\" called {F} in a small voice."],
    ["{H} wanted to run away. But {H.he} thought of {H.his} friend.", "{H.his^} heart beat fast. \"I must help,\" {H.he} said.", "{H} took a deep breath.",
     "{H} was scared, but {H.he} did not want to leave {F} alone."],
    ["{H.he^} took {O.a} in {H.his} hand and went on, step by step.", "Step by step, {H.he} went on.", "{H.he^} sang a little song and walked on.", "{H.he^} counted to {n} and went."],
    "¶",
    ["And what do you think? {calm^}.", "Then {H.he} saw that {calm}.", "Soon {H.he} found out that {calm}."],
    ["{H} found {F} and took {F.him} home.", "{H} held {F.his} hand, and they walked home together.", "\"I am here,\" said {H}, and {F} was so glad."],
    ["\"You are so brave,\" said {F}.", "\"Thank you, {H},\" said {F}. \"You were very brave.\"", "\"Were you not afraid?\" asked {F}. \"I was,\" said {H}, \"but you are my friend.\""],
    ["After that, {H} was not so afraid of {fear}.", "Now {H} is not afraid of {fear} any more.", "{H} smiled. {H.he^} was never so afraid of {fear} again."],
]
PLOTS["help"] = [
    ["[One day|One {W} morning], {H} was walking {Q.at} when {H.he} heard a small voice.", "[One day|On a {W} day], {H.he} went to {Q} and heard somebody cry."],
    ["It was a {F.sp} named {F}. {F.he^} was stuck {S1}.", "A {F.adj} {F.sp} named {F} was stuck {S1}.", "There was {F} the {F.sp}. {F.he^} had hurt {F.his} foot {S1}."],
    ["\"Please help me,\" said {F}.", "\"I can not get out,\" said {F}.", "\"Oh, please do not go away,\" said {F}."],
    "¶",
    ["{H} [did not wait|was very gentle|thought hard]. {H.he^} [used {O.a}|took {O.a}|got {O.a}] and helped {F} out.", "\"I will help you,\" said {H}. {H.he^} pulled and pulled until {F} was free.",
     "{H} ran home and came back with {O.a}. With the {O.n}, {H.he} set {F} free."],
    ["\"Thank you,\" said {F}. \"One day I will help you too.\"", "\"You are kind,\" said {F}. \"I will not forget it.\"", "{F} said thank you {n} times."],
    ["?", "{H} laughed. \"You are so small! How can you help me?\"", "Then {F} went home to {F.his} {F.home}.", "They waved and said goodbye."],
    "¶",
    ["[A week later|Some days later|Not long after that], {H} was in trouble. {H.he^} was lost {R.at} and it was [cold|dark|late].", "The next {W} day, {H} fell into a hole {R.at} and could not climb out.",
     "Some time later, a strong wind took {H.his} {U} and put it high up in a tree."],
    ["{H.he^} called and called. Who came? It was {F}!", "\"Who will help me now?\" said {H}. \"I will!\" said a voice. It was {F}.", "Then {F} came [running|as fast as {F.he} could]."],
    ["{F} knew just what to do, and soon all was well.", "{F} got {U.a} and [helped {H}|set things right].", "{F} worked hard, and soon {H} was safe [and sound|again]."],
    ["\"Thank you, {F},\" said {H}. \"You are small, but you are a big help.\"", "\"You helped me, and I helped you,\" said {F}.", "They became [best|very good] friends."],
]
PLOTS["build"] = [
    ["{H} wanted to [build|make] a {B}.", "\"I want to make a {B},\" said {H} [one day|one morning].", "[One day|One {W} day], {H} had an idea. {H.he^} would [build|make] a {B}."],
    ["\"I need {b1}, {b2} and {b3},\" {H.he} said.", "For that, {H.he} needed {b1}, {b2} and {b3}."],
    "¶",
    ["First, {H.he} went to {Q} and found {b1}.", "{H.he^} found {b1} {Q.at}."],
    ["Then {G} gave {H.him} {b2}.", "Next, {H.he} got {b2} from {G}.", "\"Do you have {b2}?\" {H.he} asked {G}. \"[Yes, here you are|Of course|Take them all],\" said {G}." ],
    ["But where was {b3}? {H} looked {R.at}, but there was none.", "But {H.he} could not find {b3} [anywhere|at all]."],
    ["Then {F} the {F.sp} came by. \"I have {b3},\" said {F}. \"May I help?\"", "A {F.adj} {F.sp} named {F} had {b3}. \"Let us do it together,\" said {F}.",
     "{H.his^} friend {F}, a {F.sp}, brought {b3}."],
    "¶",
    ["They worked [all day|all morning|for {n} days].", "{H} and {F} worked [hard|side by side|until the sun went down].", "It was hard work, but they did not stop."],
    ["?", "Once, the {B} fell apart. \"We can try again,\" said {F}.", "{F} sang a song while they worked.", "When they were hungry, they ate a {X}."],
    ["At last, the {B} was done. It was [big|{c1}|strong|a bit crooked|beautiful].", "In the end, they had a fine {B}.", "Then it was ready. It was the best {B} [{P.at}|of all]."],
    ["\"We did it!\" said {H}.", "\"I could not have done it without you,\" said {H}.", "They [painted it {c1} and {c2}|showed it to {G}|played with it every day]."],
]
PLOTS["race"] = [
    ["[One day|One {W} day], a {F.sp} named {F} said, \"I am the fastest of all.\"", "{H} had a friend, a {F.sp} named {F}. {F} was very proud of {F.his} fast feet."],
    ["\"Let us have a race to {Q},\" said {H}.", "\"I do not think so,\" said {H}. \"Let us race to {Q}.\"", "\"Will you race with me to {Q}?\" asked {H}."],
    ["{F} laughed. \"You are too slow!\"", "\"You? I will win with my eyes closed,\" said {F}.", "\"Yes,\" said {F}. \"The winner gets {O.a}.\""],
    "¶",
    ["{G^} rang a bell, and off they went.", "\"Ready, set, go!\" said {G}.", "They started {R.at}. {G^} said, \"Go!\""],
    ["{F} ran like the wind and was soon far ahead.", "{F} was very fast. Soon {H} could not see {F.him} any more.", "At first, {F} was far ahead."],
    ["\"I have time for a nap,\" said {F}, and {F.he} fell asleep {S1}.", "But {F} stopped to eat a {X}, and then another.", "Then {F} stopped to look at {U.a}."],
    ["{H} did not stop. Step by step, {H.he} went on.", "{H} went on and on, one step at a time.", "{H} was tired, but {H.he} kept going."],
    "¶",
    ["When {F} looked up, {H} was already there.", "{H} came to {Q} first! Everyone cheered.", "In the end, {H} was first by just one step."],
    ["\"You won!\" said {F}. \"I should not have laughed.\"", "{F} was sad, but {F.he} shook {H.his} hand. \"Well done,\" {F.he} said.", "\"Slow and steady,\" said {H} with a smile."],
    ["?", "{H} gave {F} a {Y}, and they were friends again.", "Then they walked home together.", "After that, {F} did not boast so much."],
]
PLOTS["gift"] = [
    ["It was [almost|soon|nearly] the birthday of {F} the {F.sp}.", "{H} had a good friend, a {F.sp} named {F}. [Tomorrow|Today] was {F.his} birthday."],
    ["{H} wanted to give {F.him} something nice.", "\"What can I give {F}?\" {H} asked {H.self}.", "But {H} had no gift and no coins."],
    "¶",
    ["{H.he^} went to {Q} and found {U.a}. \"No, that is not right,\" {H.he} said.", "At {Q}, {H.he} saw {U.a}, but it was too [big|old|heavy].", "{H.he^} looked {Q.at}, but there was nothing."],
    ["{H.he^} asked {G}. \"[The best gift comes from the heart|Make something with your own hands|Give what you love],\" said {G}.", "\"What would you give?\" {H.he} asked {G}. \"Something {O.adj},\" said {G}."],
    ["So {H} worked all night and made {O.a}.", "Then {H} found {O.a} {S1}. It was perfect!", "Then {H.he} had an idea. {H.he^} would give {F} {H.his} own {O}.", "So {H} helped {G} all day, and {G} gave {H.him} {O.a}."],
    "¶",
    ["At the party, there were {n} friends and a big cake.", "The next day, {H} went to the party {R.at}.", "The party was {R.at}. There was music and a {X} for everyone."],
    ["{H} gave {F} the {O.n}.", "\"Happy birthday!\" said {H}. {F} opened the box. Inside was the {O.n}."],
    ["\"It is the best gift of all,\" said {F}.", "{F} [smiled and smiled|was so happy|jumped up and down]. \"I love it!\" {F.he} said.", "\"How did you know?\" asked {F}. \"I always wanted {O.a}.\""],
    ["?", "They danced and ate cake until it was dark.", "{F} kept the {O.n} for ever.", "{H} was even happier than {F}."],
]
PLOTS["magic"] = [
    ["[One day|One {W} day], {H} found {O.a} {S1}.", "{Q.at^}, {H.he} found {O.a} {S1}.", "[One day|One night], {G} gave {H.him} {O.a}."],
    ["It was no plain {O.n}. It was magic!", "When {H.he} touched it, it began to glow.", "\"I am a magic {O.n},\" it said. \"You may make [a wish|two wishes].\""],
    ["{H} wished {wish}.", "\"I wish {wish},\" said {H}." if False else "{H} thought for a while. Then {H.he} wished {wish}.", "{H.he^} closed {H.his} eyes and wished {wish}."],
    "¶",
    ["[Puff|Zing|Pop]! The wish came true.", "There was a flash of {c1} light, and it came true.", "And so it was."],
    ["At first, it was fun. But soon {H} {bad}.", "But {H} {bad}.", "{H} was happy for a day. Then {H.he} {bad}."],
    ["{F} the {F.sp} came by. \"[What did you do|What happened|Oh dear]?\" {F.he} asked.", "{H.his^} friend {F}, a {F.adj} {F.sp}, did not know what to do.", "?" and "\"Oh, this is not good,\" said {H}."],
    "¶",
    ["{H} took the {O.n} and said, \"I do not want this any more. I want {undo}.\"", "\"Please, {O.n},\" said {H}, \"I only want {undo}.\"", "\"Use the {O.n} again,\" said {G}. So {H} wished for {undo}." if False else "\"Dear {O.n}, I was silly,\" said {H}. \"Now I want {undo}.\""],
    ["[Puff|Zing|Pop]! All was well again.", "The {O.n} glowed {c2}, and all was well.", "And all was as before."],
    ["{H} put the {O.n} {S2} and went home.", "{H} gave the {O.n} to {G}, who put it in a safe place.", "\"I have all I need,\" said {H}.", "{H} and {F} laughed about it for a long time." ],
]
PLOTS["map"] = [
    ["[One day|One {W} day], {H} found an old map {S1}.", "{G^} gave {H} an old map.", "In an old book, {H} found a map."],
    ["There was a {c1} cross on it. \"Treasure!\" said {H}.", "It showed the way to a treasure."],
    ["{H.he^} asked {H.his} friend {F} the {F.sp} to come along.", "\"Come with me,\" {H.he} said to {F}, a {F.adj} {F.sp}.", "A {F.sp} named {F} wanted to come too."],
    "¶",
    ["First they went to {Q}.", "The map led them to {Q}.", "They walked to {Q}, and then on to {T}."],
    ["There they had to [cross a stream|climb a wall|crawl under a fence|wait for the rain to stop].", "It was a long way, and {F} got tired. \"Not far now,\" said {H}.", "?" and "There they ate a {X} and drank some water."],
    ["Then they came to {R}.", "After {n} hours, they came to {R}.", "At last, they stood before {R}."],
    ["\"The map says to look {S2},\" said {F}.", "\"Here it is,\" said {H}. \"We must dig {S2}.\"", "{H} looked {S2}, and {F} looked {S3}."],
    "¶",
    ["They found a box. In it was {treasure}.", "And there it was, {treasure}!", "{S2^}, they found {treasure}." if False else "They dug and dug, and they found {treasure}."],
    ["\"We are rich!\" said {F}.", "They could not believe their eyes.", "\"Half for you and half for me,\" said {H}.", "\"Let us take it home,\" said {H}."],
    ["They [shared it with everyone|took it to {G}|shared it with all their friends] {P.at}.", "But the best treasure was the day they had together.", "They went home and told {G} all about it."],
]
PLOTS["rain"] = [
    ["[One day|One morning], {H} and {H.his} friend {F} the {F.sp} wanted to play {Q.at}.", "{H} and a {F.sp} named {F} had a plan. They wanted to go to {Q}."],
    ["But then it began to rain.", "But big dark clouds came, and soon it rained and rained.", "But the sky was gray, and the rain fell hard."],
    ["\"Now we can not go out,\" said {F}.", "\"What a bad day,\" said {H}.", "{F} sat by the window and was sad."],
    "¶",
    ["\"I know what to do,\" said {H}. \"Let us play with the {O}.\"", "Then {H} had an idea. {H.he^} got {O.a} and {U.a}.", "\"We can make our own fun,\" said {H}. {H.he^} took out {O.a}."],
    ["They made a tent out of a blanket.", "They [told stories|sang songs|played games] and ate a {X}.", "They made a boat out of a box. \"Let us sail to {R}!\" said {F}."],
    ["They laughed so much that they forgot the rain.", "The time went by fast.", "They did not even hear the rain."],
    "¶",
    ["Then the sun came out. There was a rainbow over {Q}.", "When they looked up, the rain was over and the sky was {c1} and bright." if False else "When they looked up, the rain was over.", "At last the rain stopped, and a big rainbow was in the sky."],
    ["They ran out and jumped in the puddles.", "\"Look, a rainbow!\" said {F}.", "\"I hope it rains again tomorrow,\" said {H}."],
]
PLOTS["learn"] = [
    ["{H} wanted to learn to {sk}.", "\"I want to {sk},\" said {H}. But {H.he} did not know how.", "All of {H.his} friends could {sk}, but {H} could not."],
    ["{H.he^} went to {SP} and tried. It did not go well.", "The first time, {H.he} [fell down|got it all wrong|gave up at once].", "{H.he^} tried and tried, but {H.he} could not do it."],
    ["\"I will never learn it,\" said {H}.", "{H} [was sad|sat down and sighed|wanted to go home]."],
    "¶",
    ["{G^} saw {H.him}. \"[Nobody can do it at once|I was bad at it too|It takes time],\" {G.he} said.", "{H.his^} friend {F} the {F.sp} said, \"I can show you.\"", "{F}, a {F.adj} {F.sp}, came by. \"Try again,\" said {F}. \"I will help you.\""],
    ["So {H} tried again, day after day.", "Every day, {H} went to {SP} and worked on it.", "For {n} days, {H} did nothing but {sk}." if False else "For {n} days, {H} worked hard."],
    ["?", "Some days were good and some days were bad.", "It was a little better each day.", "{H.he^} kept {O.a} with {H.him} for luck."],
    "¶",
    ["Then, one {W} day, {H} {skd}!", "And then it happened. {H} {skd}, and everyone saw it.", "At last, {H} {skd} all by {H.self}."],
    ["\"I can do it!\" {H.he} said.", "Everyone [clapped|cheered].", "\"Look at me!\" said {H}.", "\"I knew you could do it,\" said {G}."],
    ["Now {H} loves {sking}.", "After that, {H} showed {U.the} how it is done." if False else "Soon {H} taught the little ones.", "{H} was very proud."],
]
PLOTS["truth"] = [
    ["{H.his^} friend {F} the {F.sp} had {O.a}.", "{H} had a friend, a {F.sp} named {F}. {F} loved {F.his} {O}."],
    ["[One day|One {W} day], {H} played with the {O.n} and broke it.", "[One day|One {W} day], {H} took the {O.n} to {Q}. It fell down and broke."],
    ["{H} was afraid. {H.he^} hid the {O.n} {S1}.", "{H.he^} did not want {F} to see it, so {H.he} put it {S1}."],
    "¶",
    ["\"Where is my {O.n}?\" asked {F}. \"I do not know,\" said {H}.", "{F} looked everywhere. \"Did you see my {O.n}?\" {F.he} asked. {H} said nothing."],
    ["That night, {H} could not sleep. {H.he^} felt bad.", "{H} felt a stone in {H.his} tummy.", "{H} could not eat {H.his} {X}. {H.he^} felt very bad."],
    ["\"You look sad,\" said {G}. {H} told {G.him} everything. \"Tell the truth,\" said {G}.", "{H} went to {G}. \"It is best to tell the truth,\" said {G}."],
    "¶",
    ["In the morning, {H} went to {F}. \"I broke your {O.n},\" {H.he} said. \"I am sorry.\"", "{H} took the {O.n} to {F}. \"It was me. I am so sorry,\" said {H}."],
    ["{F} was sad at first. Then {F.he} said, \"Thank you for telling me.\"", "\"I am sad,\" said {F}, \"but I am glad you told me.\""],
    ["Together they fixed it.", "With some glue and string, they fixed the {O.n}.", "They painted it {c1}, and it was as good as new.", "{H} gave {F} {U.a}, and they were friends again."],
]
PLOTS["newfriend"] = [
    ["But {H} had nobody to play with.", "{H} was new {P.at} and did not know anyone.", "But {H} was lonely. {H.he^} had no friends."],
    ["{H.he^} played alone with {H.his} {O}.", "Every day, {H.he} sat {Q.at} with {H.his} {O}.", "{H.he^} talked to the clouds and the trees."],
    "¶",
    ["[One day|One {W} day], {H.he} saw a {F.sp} {Q.at}.", "[One day|One {W} morning], there was a {F.adj} {F.sp} {Q.at}.", "Then a {F.adj} {F.sp} came to live {R.at}."],
    ["{H} was shy. {H.he^} hid {S1}.", "{H} wanted to say hello, but {H.he} was shy.", "The {F.sp} had {U.a}."],
    ["\"Hello,\" said the {F.sp}. \"My name is {F}. What is your name?\" \"I am {H},\" said {H}.", "\"Hello, I am {H},\" said {H} at last. \"I am {F},\" said the {F.sp}."],
    ["\"Do you want to play with me?\" asked {F}.", "\"That is a nice {O.n},\" said {F}. \"May I see it?\"", "\"Do you like a {X}?\" asked {H}. \"I have two.\" \"Yes, please,\" said {F}."],
    "¶",
    ["They [ran|played|laughed] all day.", "They went to {R} and played [tag|hide and seek|catch].", "{H} showed {F} {H.his} {O}, and {F} showed {H} how to {sk}."],
    ["When it was dark, {F} said, \"See you tomorrow!\"", "\"Will you come back?\" asked {H}. \"Every day,\" said {F}.", "\"I am glad I met you,\" said {H}."],
    ["Now {H} was not lonely any more.", "{H} went home with a warm heart.", "{H} had a friend at last."],
]
PLOTS["seed"] = [
    ["[One day|One spring day], {G} gave {H} a tiny seed.", "[One day|One {W} day], {H} found a tiny seed {S1}."],
    ["\"What will it be?\" asked {H}. \"Wait and see,\" said {G}.", "\"It is so small,\" said {H}.", "\"I will plant it,\" said {H}."],
    ["{H.he^} planted it {Q.at} and gave it water.", "{H.he^} made a hole {Q.at}, put the seed in, and gave it water."],
    "¶",
    ["Every day, {H} looked at it. Nothing happened.", "{H.he^} waited one day. {H.he^} waited two days. Nothing came up.", "For {n} days there was nothing but mud."],
    ["{F} the {F.sp} laughed. \"[Nothing will grow there|You only have a pot of mud|That is just mud]!\"", "\"It will not grow,\" said a {F.sp} named {F}.", "{H.his^} friend {F}, a {F.sp}, said, \"Do not give up.\""],
    ["But {H} gave it water every morning.", "{H} sang to the seed each night.", "But {H} did not give up."],
    "¶",
    ["Then one {W} morning, there was a small green leaf!", "One day, a tiny green leaf came up."],
    ["It grew and grew. Soon it was a {seed}, {seedl}.", "Week by week it grew. It was a {seed}, {seedl}!"],
    ["\"You were right,\" said {F}.", "Everyone came to see it.", "\"Good things take time,\" said {G}.", "{H} gave a piece of it to everyone {P.at}." if False else "{H} was so proud."],
]
PLOTS["night"] = [
    ["One {W} night, {H} could not sleep.", "One night, {H} was in bed when {H.he} heard a noise.", "It was late, and {H} was in {H.his} bed."],
    ["\"{noise^},\" it went.", "There was a noise. \"{noise^}!\"", "{noise^}! What was that?"],
    ["\"Is it a monster?\" thought {H}.", "{H} hid under {H.his} blanket.", "{H.his^} heart went bump."],
    "¶",
    ["{H.he^} woke {H.his} friend {F} the {F.sp}. \"Do you hear it?\" {H.he} asked.", "{H.he^} ran to {F}, a {F.adj} {F.sp}. \"There is a monster!\" said {H}.", "{F} the {F.sp} heard it too."],
    ["They took {O.a} and went to look.", "\"Let us go and see,\" said {F}. {F.he^} took {O.a}.", "They went on tiptoe, hand in hand."],
    ["They looked {S1}. Nothing. They looked {S2}. Nothing.", "\"{noise^},\" it went again, louder now.", "It came from {Q}." ],
    "¶",
    ["Then they saw it. It was only {cause}!", "And what was it? Just {cause}!", "\"It is only {cause}!\" said {H}."],
    ["They laughed and laughed.", "\"And I was so afraid,\" said {H}.", "\"That is no monster,\" said {F}."],
    ["They drank some warm milk and went back to bed.", "Soon they were both fast asleep.", "{H} closed {H.his} eyes and slept until morning."],
]
PLOT_NAMES = sorted(PLOTS)
for _p in PLOTS.values():          # every plot step is a list of non-empty alternatives
    for _i, _s in enumerate(_p):
        if _s != "¶":
            _p[_i] = [_s[0]] + [x for x in _s[1:] if x] if _s[0] == "?" else [x for x in _s if x]

# --------------------------------------------------------------------- chat
COLOR_OF = {"grass": "green", "the sky": "blue", "a banana": "yellow", "snow": "white", "coal": "black", "a tomato": "red",
            "a carrot": "orange", "milk": "white", "the sun": "yellow", "a lemon": "yellow", "blood": "red", "chocolate": "brown",
            "a frog": "green", "a flamingo": "pink", "a crow": "black", "an orange": "orange", "a pumpkin": "orange", "a leaf": "green",
            "a strawberry": "red", "a plum": "purple", "a pig": "pink", "a polar bear": "white", "an elephant": "gray", "a fox": "red",
            "a swan": "white", "the sea": "blue", "a cherry": "red", "a fire truck": "red", "sand": "yellow", "wood": "brown",
            "a cloud": "white", "the night": "black", "a cucumber": "green", "a pea": "green", "a bear": "brown", "corn": "yellow",
            "a rose": "red", "salt": "white", "gold": "yellow", "a mouse": "gray", "a violet": "purple", "a bat": "black",
            "honey": "golden", "butter": "yellow", "a brick": "red", "ice": "white", "a chick": "yellow", "a lime": "green"}
OPP = dict(p.split("/") for p in """hot/cold big/small up/down fast/slow day/night happy/sad old/new full/empty wet/dry open/closed
hard/soft light/dark high/low long/short loud/quiet near/far rich/poor strong/weak early/late clean/dirty left/right in/out on/off
yes/no good/bad thick/thin heavy/light first/last young/old awake/asleep sweet/sour true/false top/bottom front/back always/never
start/end push/pull give/take win/lose brave/afraid inside/outside black/white over/under summer/winter laugh/cry love/hate
question/answer before/after same/different many/few deep/shallow wide/narrow sharp/blunt tall/short empty/full cold/hot down/up
sad/happy slow/fast night/day dry/wet small/big low/high far/near out/in off/on weak/strong late/early dirty/clean right/left
bad/good last/first never/always end/start pull/push""".split())
SOUNDS = {"cow": "moo", "dog": "woof", "cat": "meow", "duck": "quack", "sheep": "baa", "pig": "oink", "horse": "neigh",
          "rooster": "cock-a-doodle-doo", "owl": "hoot", "frog": "ribbit", "bee": "buzz", "snake": "hiss", "lion": "roar",
          "mouse": "squeak", "crow": "caw", "wolf": "howl", "goat": "maa", "turkey": "gobble", "goose": "honk", "hen": "cluck",
          "chick": "cheep", "donkey": "hee-haw", "bear": "growl", "pigeon": "coo", "kitten": "mew", "puppy": "yap", "fox": "yip",
          "bird": "tweet", "tiger": "roar", "cricket": "chirp", "dragon": "roar", "lamb": "baa", "fly": "buzz", "monkey": "ooh ooh"}
LEGS = {"spider": 8, "dog": 4, "cat": 4, "bird": 2, "ant": 6, "bee": 6, "horse": 4, "cow": 4, "duck": 2, "snake": 0, "fish": 0,
        "hen": 2, "crab": 10, "fly": 6, "frog": 4, "goat": 4, "owl": 2, "fox": 4, "mouse": 4, "worm": 0, "beetle": 6, "octopus": 8,
        "person": 2, "lion": 4, "table": 4, "chair": 4, "penguin": 2, "bear": 4, "pig": 4, "snail": 0}
KIND = {"apple": "fruit", "carrot": "vegetable", "pear": "fruit", "potato": "vegetable", "banana": "fruit", "onion": "vegetable",
        "dog": "animal", "oak": "tree", "rose": "flower", "hammer": "tool", "shirt": "piece of clothing", "cherry": "fruit",
        "cabbage": "vegetable", "tulip": "flower", "cat": "animal", "horse": "animal", "saw": "tool", "hat": "piece of clothing",
        "pine": "tree", "plum": "fruit", "turnip": "vegetable", "daisy": "flower", "cow": "animal", "drum": "musical instrument",
        "flute": "musical instrument", "violin": "musical instrument", "red": "color", "blue": "color", "green": "color",
        "robin": "bird", "owl": "bird", "crow": "bird", "shark": "fish", "salmon": "fish", "bee": "insect", "ant": "insect",
        "scarf": "piece of clothing", "peach": "fruit", "lemon": "fruit", "bus": "vehicle", "car": "vehicle", "train": "vehicle"}
USES = {"cut paper": "scissors", "write": "a pencil", "eat soup": "a spoon", "open a door": "a key", "sweep the floor": "a broom",
        "see in the dark": "a lamp", "tell the time": "a clock", "stay dry in the rain": "an umbrella", "dig a hole": "a shovel",
        "brush your teeth": "a toothbrush", "hit a nail": "a hammer", "cut wood": "a saw", "drink tea": "a cup", "catch a fish": "a net",
        "climb onto a roof": "a ladder", "keep your hands warm": "mittens", "carry apples": "a basket", "ride on snow": "a sled",
        "paint a wall": "a brush", "find the way": "a map", "tie a box": "a string", "sew a button": "a needle", "sleep well": "a pillow"}
DAYS = "Monday Tuesday Wednesday Thursday Friday Saturday Sunday".split()
MONTHS = "January February March April May June July August September October November December".split()
NUMW = """zero one two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen sixteen seventeen
eighteen nineteen twenty""".split()
BABY = {"dog": "puppy", "cat": "kitten", "cow": "calf", "horse": "foal", "sheep": "lamb", "hen": "chick", "duck": "duckling", "pig": "piglet",
        "bear": "cub", "lion": "cub", "goat": "kid", "deer": "fawn", "frog": "tadpole", "goose": "gosling", "swan": "cygnet", "owl": "owlet"}
PLURAL = {"mouse": "mice", "foot": "feet", "tooth": "teeth", "child": "children", "goose": "geese", "man": "men", "woman": "women",
          "sheep": "sheep", "leaf": "leaves", "wolf": "wolves", "fox": "foxes", "box": "boxes", "cat": "cats", "dog": "dogs", "ball": "balls",
          "cherry": "cherries", "story": "stories", "baby": "babies", "bus": "buses", "knife": "knives", "hat": "hats", "key": "keys",
          "fish": "fish", "bee": "bees", "tree": "trees", "house": "houses", "lamp": "lamps", "berry": "berries", "glass": "glasses"}
RHYME = {"cat": "hat", "dog": "log", "mouse": "house", "bee": "tree", "fox": "box", "bear": "chair", "moon": "spoon", "star": "car",
         "frog": "log", "sun": "fun", "cake": "lake", "king": "ring", "boat": "coat", "hen": "pen", "fish": "dish", "snail": "tail",
         "night": "light", "rain": "train", "pig": "wig", "goat": "boat", "snow": "crow", "bed": "red", "ball": "wall", "sea": "key"}
BIGGER = "ant bee mouse hen cat dog goat pig horse elephant whale".split()
SORTW = """apple ant bear ball boat cat cake car dog door duck egg ear elm fish frog fox goat gold grape hat hen house ice ink
jam jar jug key king kite lamp leaf lion milk moon mouse nest net nut oak oil owl park pear pig queen quilt rain ring
rose sand ship snow star table tent tree urn van vase wall whale wind yarn yard zebra zoo""".split()
UNKNOWN = ["What is the capital of [France|Spain|Japan|Peru|Norway|India|Italy|Egypt|Canada|Germany|China|Brazil|the United States]?",
           "Who is the president [of France|of the United States|]?", "What is the weather [today|like|in London|tomorrow|like today]?",
           "[Write|Can you write] [a program|code|a function|a script] [in Python|in C|in Rust|in Go|in Java|to sort a list|that prints hello|for me].",
           "What is [the meaning of life|quantum physics|a black hole|the speed of light|machine learning|an atom|a neural network|the internet|bitcoin]?",
           "Who [wrote|painted|invented|made] [this book|the Mona Lisa|the telephone|Hamlet|the light bulb|the computer]?", "What is [23 times 47|12 times 12|99 divided by 7|the square root of 2|1000 plus 234]?",
           "How do I [fix my car|install Linux|get rich|cook rice|learn to code|lose weight|build a house]?", "When was [Rome built|the war|the moon landing|Einstein born]?",
           "Translate this [into French|to Spanish|into German]: hello.", "What time is it [now|]?", "How tall is [Mount Everest|the Eiffel Tower|the moon]?",
           "Explain [gravity|recursion|evolution|electricity|love|money|politics|transformers|attention].", "What is the [population|size|age] of [China|the earth|London|the sun]?",
           "How far is [the moon|the sun|Paris|Mars]?", "Who won the [game|World Cup|election|war]?", "What happened in [1066|1492|1945|2020]?", "Give me [legal|medical|good] advice."]
UNKNOWN_A = ["I am sorry, I do not know that. I am a very small model.", "I do not know. I am only a tiny model, but I can tell you a story.",
             "That is too hard for me. I know simple things, like colors and animals."]
LIKES = "fish soup rain cake honey snow music books cheese tea pears games bread milk puzzles songs".split()
SYSTEM = ["You are a helpful assistant.", "You are a kind assistant.", "You are a friendly little helper.", "Answer in a short sentence.",
          "You tell stories to children.", "You are a tiny model that answers simple questions.", "Be brief and polite."]
HOMES = """castle tower cottage cave barn house village city forest boat tent mill palace hut lighthouse cabin farm treehouse
wagon igloo windmill""".split()
JOBS = "baker farmer teacher sailor painter doctor tailor miller singer pilot cook gardener knight fisher builder".split()
PETS = "cat dog rabbit mouse parrot turtle hen goat pony frog duck fish snail hamster".split()
EVENTS = "party race dance picnic market concert parade feast game wedding play fair".split()


def an(s):
    return ARTICLE.sub(lambda m: m.group(1) + "n ", s)


class Chat(Writer):
    def name(self):
        """A known name, or a made-up one so that copying is learnt, not only lookup."""
        r = self.r
        if r.random() < 0.65:
            return r.choice(GIRLS + BOYS)
        s = "".join(r.choice("b d f g h j k l m n p r s t v z br st ch sh".split()) + r.choice("a e i o u ai ee".split())
                    for _ in range(r.choice([1, 2, 2, 3])))
        return (s + r.choice(["", "", "n", "l", "s", "r", "m", "x"])).capitalize()

    def q_color(self):
        t, c = self.r.choice(sorted(COLOR_OF.items()))
        q = self.alts("[What color is %s?|What is the color of %s?|Tell me the color of %s.|Which color does %s have?|What color is %s, please?]" % ((t,) * 5))
        return q, "%s is %s." % (t[0].upper() + t[1:], c)

    def q_opp(self):
        a, b = self.r.choice(sorted(OPP.items()))
        q = self.alts("[What is the opposite of %s?|Tell me the opposite of %s.|What is the opposite of the word %s?|Opposite of %s?|Which word means the opposite of %s?]" % ((a,) * 5))
        return q, "The opposite of %s is %s." % (a, b)

    def q_add(self):
        n = self.r.randint(0, 20)
        a = self.r.randint(0, n)
        b = n - a
        if self.r.random() < 0.75:
            q = self.alts("[What is %d + %d?|What is %d plus %d?|How much is %d + %d?|Add %d and %d.|%d + %d = ?|What is %d+%d?|%d+%d|Please add %d and %d.|What do you get for %d plus %d?]" % ((a, b) * 9))
            return q, "%d + %d = %d." % (a, b, n)
        q = "What is %s plus %s?" % (NUMW[a], NUMW[b])
        return q, "%s plus %s is %s." % (NUMW[a].capitalize(), NUMW[b], NUMW[n])

    def q_sub(self):
        n = self.r.randint(0, 20)
        b = self.r.randint(0, n)
        q = self.alts("[What is %d - %d?|What is %d minus %d?|How much is %d - %d?|%d - %d = ?]" % ((n, b) * 4))
        return q, "%d - %d = %d." % (n, b, n - b)

    def q_word(self):
        n, x, k = self.name(), self.r.choice([f + "s" for f in "apple pear nut plum book ball coin shell egg cup hat key".split()]), self.r.random()
        a, b = self.r.randint(2, 10), self.r.randint(1, 9)
        if k < 0.5:
            return self.alts("%s has %d %s. %s gets %d more. How many %s does %s have[ now|]?" % (n, a, x, n, b, x, n)), "%d + %d = %d. %s has %d %s." % (a, b, a + b, n, a + b, x)
        b = min(a - 1, b)
        return self.alts("%s has %d %s and [gives away|loses|sells] %d. How many %s are left?" % (n, a, x, b, x)), "%d - %d = %d. There %s left." % (
            a, b, a - b, "are %d %s" % (a - b, x) if a - b > 1 else "is 1 " + x[:-1])

    def q_count(self):
        a = self.r.choice([1, 1, 1, 1, 2, 3, 4, 5, 6, 7, 10])
        b = a + self.r.randint(2, 10)
        k = self.r.random()
        if k < 0.2 and b <= 20:
            return "Count from %s to %s in words." % (NUMW[a], NUMW[b]), ", ".join(NUMW[a:b + 1]).capitalize() + "."
        if k < 0.4:
            return self.alts("[Count down from %d to %d.|Count backwards from %d to %d.|Please count down from %d to %d.]" % ((b, a) * 3)), ", ".join(str(i) for i in range(b, a - 1, -1)) + "."
        if k < 0.5:
            m = 2 * self.r.randint(3, 10)
            return self.alts("Count by twos [from 2 |]to %d." % m), ", ".join(str(i) for i in range(2, m + 1, 2)) + "."
        q = "[Count from %d to %d.|Please count from %d to %d.|Can you count from %d to %d?|Say the numbers from %d to %d.]" % ((a, b) * 4)
        if a == 1:
            q = "[%s|Count to %d.|Can you count to %d?|Please count up to %d.]" % (q, b, b, b)
        return self.alts(q), ", ".join(str(i) for i in range(a, b + 1)) + "."

    def q_next(self):
        n, k = self.r.randint(1, 30), self.r.random()
        if k < 0.5:
            return self.alts("[What number comes after %d?|What comes after %d?|Which number is next after %d?]" % (n, n, n)), "After %d comes %d." % (n, n + 1)
        if k < 0.8:
            return "What number comes before %d?" % n, "Before %d comes %d." % (n, n - 1)
        m = self.r.randint(1, 30)
        if m == n:
            m += 1
        return self.alts("[Which is bigger, %d or %d?|What is more, %d or %d?]" % (n, m, n, m)), "%d is bigger than %d." % (max(n, m), min(n, m))

    def q_day(self):
        k = self.r.random()
        L, word = (DAYS, "day") if self.r.random() < 0.65 else (MONTHS, "month")
        i = self.r.randrange(len(L))
        if k < 0.4:
            return self.alts("[What %s comes after %s?|Which %s is after %s?|What %s follows %s?]" % ((word, L[i]) * 3)), "After %s comes %s." % (L[i], L[(i + 1) % len(L)])
        if k < 0.7:
            return self.alts("[What %s comes before %s?|Which %s is before %s?]" % ((word, L[i]) * 2)), "Before %s comes %s." % (L[i], L[i - 1])
        if k < 0.8 and word == "day":
            return "Today is %s. What day is it tomorrow?" % L[i], "Tomorrow is %s." % L[(i + 1) % 7]
        if k < 0.85 and word == "day":
            return "Today is %s. What day was yesterday?" % L[i], "Yesterday was %s." % L[i - 1]
        return self.r.choice([("What are the days of the week?", "The days of the week are " + ", ".join(DAYS[:6]) + " and Sunday."),
                              ("Name the days of the week.", "The days of the week are " + ", ".join(DAYS[:6]) + " and Sunday."),
                              ("How many days are in a week?", "There are 7 days in a week."), ("How many months are in a year?", "There are 12 months in a year."),
                              ("What are the four seasons?", "The four seasons are spring, summer, autumn and winter."),
                              ("Name the seasons.", "The four seasons are spring, summer, autumn and winter."),
                              ("What season comes after winter?", "After winter comes spring."), ("What season comes after summer?", "After summer comes autumn."),
                              ("Name the months.", "The months are " + ", ".join(MONTHS[:11]) + " and December."),
                              ("What is the first day of the week?", "The first day of the week is Monday."), ("What is the last month of the year?", "The last month of the year is December.")])

    def q_sort(self):
        if self.r.random() < 0.35:
            ns = self.r.sample(range(1, 31), self.r.choice([3, 3, 3, 4]))
            s = ", ".join(map(str, ns))
            return self.alts("[Sort these numbers: %s|Put these numbers in order: %s|Sort: %s]" % (s, s, s)), ", ".join(map(str, sorted(ns)))
        while True:
            ws = self.r.sample(SORTW, 3)
            if len({w[0] for w in ws}) == 3 or self.r.random() < 0.1:
                break
        s = ", ".join(ws)
        return self.alts("[Sort these words: %s|Sort these words from A to Z: %s|Put these words in order: %s|Sort the words %s.|Sort: %s]" % ((s,) * 5)), ", ".join(sorted(ws))

    def q_sound(self):
        a, s = self.r.choice(sorted(SOUNDS.items()))
        q = self.alts("[What sound does a %s make?|What does a %s say?|How does a %s sound?|Which sound does a %s make?|What noise does a %s make?]" % ((a,) * 5))
        return an(q), an("A %s says %s." % (a, s))

    def q_which_animal(self):
        a, s = self.r.choice([(a, s) for a, s in sorted(SOUNDS.items()) if list(SOUNDS.values()).count(s) == 1])
        return self.alts("[Which animal says %s?|What animal says %s?|Who says %s?]" % (s, s, s)), an("A %s says %s." % (a, s))

    def q_legs(self):
        a, n = self.r.choice(sorted(LEGS.items()))
        return an(self.alts("[How many legs does a %s have?|How many legs has a %s?|Tell me how many legs a %s has.]" % (a, a, a))), an("A %s has %s legs." % (a, n if n else "no"))

    def q_kind(self):
        a, k = self.r.choice(sorted(KIND.items()))
        art = "" if k == "color" else "a "
        return an(self.alts("[What is %s%s?|What kind of thing is %s%s?]" % (art, a, art, a))), an("%s%s is a %s." % (art, a, k)).strip()[0:1].upper() + an("%s%s is a %s." % (art, a, k))[1:]

    def q_use(self):
        a, k = self.r.choice(sorted(USES.items()))
        verb = "You can use %s to %s." % (k, a)
        return self.alts("[What do you use to %s?|What do I need to %s?|What can I use to %s?]" % (a, a, a)), verb

    def q_eat(self):
        sp, home, food = self.r.choice(ANIMALS)
        return an(self.alts("[What does a %s eat?|What does a %s like to eat?]" % (sp, sp))), an("A %s likes to eat %s." % (sp, food))

    def q_live(self):
        sp, home, food = self.r.choice(ANIMALS)
        return an(self.alts("[Where does a %s live?|What is the home of a %s?]" % (sp, sp))), an("A %s can live in a %s." % (sp, home)).replace("in a deep sea", "in the deep sea")

    def q_baby(self):
        a, b = self.r.choice(sorted(BABY.items()))
        return an(self.alts("[What is a baby %s called?|What do you call a baby %s?|What is the name for a baby %s?]" % (a, a, a))), an("A baby %s is called a %s." % (a, b))

    def q_plural(self):
        a, b = self.r.choice(sorted(PLURAL.items()))
        return self.alts("[What is the plural of %s?|Tell me the plural of %s.|One %s, two what?]" % (a, a, a)), "The plural of %s is %s." % (a, b)

    def q_rhyme(self):
        a, b = self.r.choice(sorted(RHYME.items()))
        return self.alts("[What rhymes with %s?|Find a word that rhymes with %s.|Which word rhymes with %s?]" % (a, a, a)), "%s rhymes with %s." % (b.capitalize(), a)

    def q_bigger(self):
        i, j = self.r.sample(range(len(BIGGER)), 2)
        lo, hi = BIGGER[min(i, j)], BIGGER[max(i, j)]
        if self.r.random() < 0.6:
            return an("Which is bigger, a %s or a %s?" % (BIGGER[i], BIGGER[j])), an("A %s is bigger than a %s." % (hi, lo))
        return an("Which is smaller, a %s or a %s?" % (BIGGER[i], BIGGER[j])), an("A %s is smaller than a %s." % (lo, hi))

    def q_spell(self):
        w = self.r.choice(SORTW)
        if self.r.random() < 0.5:
            return self.alts("[How do you spell %s?|Spell the word %s.|Spell %s.]" % (w, w, w)), "-".join(w)
        return self.alts("[What is the first letter of %s?|Which letter does %s start with?]" % (w, w)), "The first letter of %s is %s." % (w, w[0])

    def q_repeat(self):
        s = self.alts("[the|a|my|one] [%s|%s] [%s|%s]" % (self.r.choice(COLORS), self.r.choice(OBJ_ADJ), self.r.choice(TOYS), self.r.choice(ANIMALS)[0]))
        if self.r.random() < 0.5:
            s += " " + self.alts("[is|sat|slept|was lost] " + self.r.choice(SPOTS))
        s = an(s)
        return self.alts("[Repeat after me: %s|Say: %s|Please repeat: %s|Repeat this: %s]" % (s, s, s, s)), s

    def q_who(self):
        (a, b), k = self.r.sample(GIRLS + BOYS, 2), self.r.random()
        o1, o2 = self.r.sample(TOYS, 2)
        c1, c2 = self.r.sample(COLORS, 2)
        if k < 0.4:
            i = self.r.randrange(2)
            q = "%s has a %s %s. %s has a %s %s. " % (a, c1, o1, b, c2, o2)
            n, c, o = ((a, c1, o1), (b, c2, o2))[i]
            if self.r.random() < 0.5:
                return an(q + "Who has the %s?" % o), "%s has the %s." % (n, o)
            if self.r.random() < 0.5:
                return an(q + "What does %s have?" % n), an("%s has a %s %s." % (n, c, o))
            return an(q + "What color is the %s?" % o), "The %s is %s." % (o, c)
        p1, p2 = (Place(*p) for p in self.r.sample(PLACES, 2))
        if k < 0.7:
            n, p = self.r.choice([(a, p1), (b, p2)])
            return "%s is %s. %s is %s. Where is %s?" % (a, p1.at, b, p2.at, n), "%s is %s." % (n, p.at)
        return self.alts("The %s is %s. Where is the %s?" % (o1, self.r.choice(SPOTS), o1)), None

    def q_where(self):
        o, s = self.r.choice(TOYS), self.r.choice(SPOTS)
        return "The %s is %s. Where is the %s?" % (o, s, o), "The %s is %s." % (o, s)

    def q_hello(self):
        n = self.name()
        return self.r.choice([
            (self.alts("[Hello|Hi|Hey|Hello there|Hi there|Good morning|Good day|hello|hi][!|.|]"), self.alts("Hello! How can I help you?")),
            (self.alts("[How are you?|How are you today?|How do you do?]"), "I am fine, thank you. How can I help you?"),
            (self.alts("[Thank you|Thanks|Thank you very much|Thanks a lot][!|.]"), "You are welcome!"),
            (self.alts("[Goodbye|Bye|See you later|Good night|Bye bye][!|.|]"), "Goodbye! Have a nice day."),
            (self.alts("[Who are you?|What are you?|What is your name?|Tell me about yourself.|Who made you?|Are you a person?|Are you a robot?]"),
             "I am a very small language model. I know a few simple things, and I like to tell stories."),
            (self.alts("[What can you do?|How can you help me?|What do you know?|Help!|Help me.|What can I ask you?]"),
             "I can tell short stories, answer simple questions, count, sort words and write JSON."),
            ("Say hello to %s." % n, "Hello, %s!" % n), ("My name is %s." % n, "Nice to meet you, %s!" % n),
            ("Hello, I am %s." % n, "Hello, %s! How can I help you?" % n), (self.alts("I am [sad|tired|bored]."), "I am sorry to hear that. Do you want to hear a story?"),
            (self.alts("I am [happy|glad]."), "That is good to hear!"),
            (self.alts("[Tell me a joke.|Do you know a joke?|Make me laugh.]"), self.r.choice([
                "Why did the hen cross the road? To get to the other side!", "What do you call a bear with no teeth? A gummy bear!",
                "What has four legs and can not walk? A table!"])),
        ])

    def q_unknown(self):
        return self.alts(self.r.choice(UNKNOWN)).replace(" ?", "?"), self.r.choice(UNKNOWN_A)

    def q_memory(self):
        n = self.name()
        k = self.r.random()
        if k < 0.5:
            return [("My name is %s." % n, "Nice to meet you, %s!" % n)], (self.alts("[What is my name?|Do you know my name?|Who am I?]"), "Your name is %s." % n)
        c, o = self.r.choice(COLORS), self.r.choice(TOYS)
        if k < 0.8:
            return [(an("I have a %s %s." % (c, o)), an("A %s %s! That sounds nice." % (c, o)))], (self.alts("[What do I have?|What color is my %s?]" % o), None) if False else ("What color is my %s?" % o, "Your %s is %s." % (o, c))
        a = self.r.choice(ANIMALS)[0]
        return [(an("I like the %s." % a), "I like the %s too." % a)], ("Which animal do I like?", "You like the %s." % a)

    # ------------------------------------------------------------ JSON
    def json_pair(self):
        r, n = self.r, self.name()
        he = "He" if n in BOYS or n not in GIRLS and r.random() < 0.5 else "She"
        k = r.randrange(9)
        if k <= 1:
            a, h = r.randint(3, 99), r.choice(HOMES + HOMES + [p[1] for p in PLACES])
            t = self.alts("[%s is %d years old and lives in a %s.|%s, who is %d, lives in a %s.|%s is %d and has a home in a %s.]" % ((n, a, h) * 3))
            if r.random() < 0.25:
                t = "%s lives in a %s. %s is %d years old." % (n, h, he, a)
            d = {"name": n, "age": a, "home": h}
        elif k == 2:
            c, p = r.choice(COLORS), r.choice(PETS)
            t = self.alts("[%s has a %s %s.|%s owns a %s %s.|%s has a pet, a %s %s.]" % ((n, c, p) * 3))
            d = {"name": n, "pet": p, "color": c}
        elif k == 3:
            q, c, i = r.randint(2, 30), r.choice(COLORS), r.choice(TOYS)
            pl = i + ("es" if i.endswith(("x", "sh", "ch")) else "s")
            if i == "box":
                pl = "boxes"
            t = self.alts("[The shop sells %d %s %s.|There are %d %s %s.|I see %d %s %s.]" % ((q, c, pl) * 3))
            d = {"item": pl, "color": c, "count": q}
        elif k == 4:
            ns = r.sample(GIRLS + BOYS, r.choice([2, 3, 3]))
            p = r.choice(PLACES)[1]
            t = self.alts("%s and %s [went to|are at|walked to] the %s." % (", ".join(ns[:-1]), ns[-1], p))
            d = {"people": ns, "place": p}
        elif k == 5:
            x, y = r.sample(LIKES, 2)
            t = self.alts("[%s likes %s but not %s.|%s loves %s and hates %s.]" % ((n, x, y) * 2))
            d = {"name": n, "likes": x, "dislikes": y}
        elif k == 6:
            e, dd, p = r.choice(EVENTS), r.choice(DAYS), r.choice(PLACES)[1]
            t = self.alts("[The %s is on %s at the %s.|There is a %s on %s at the %s.]" % ((e, dd, p) * 2))
            d = {"event": e, "day": dd, "place": p}
        elif k == 7:
            j, a = r.choice(JOBS), r.randint(18, 80)
            t = self.alts("[%s is a %s and is %d years old.|%s works as a %s and is %d.]" % ((n, j, a) * 2))
            d = {"name": n, "job": j, "age": a}
        else:
            o, c, yes = r.choice(TOYS), r.choice(COLORS), r.random() < 0.5
            t = "The %s %s is %s." % (c, o, self.alts("[lost|gone|not here]") if yes else self.alts("[here|found|not lost]"))
            d = {"item": o, "color": c, "lost": yes}
        return an(t), d

    def q_json(self):
        t, d = self.json_pair()
        keys = list(d)
        ks = ", ".join(keys[:-1]) + " and " + keys[-1]
        q = self.alts("[Return JSON for: |Return JSON for: |Give me JSON for: |Extract the facts as JSON: |Turn this into JSON: |Write JSON for: |"
                      "Return JSON with %s for: |As JSON, please: ]" % ks) + t
        return q, json.dumps(d)

    # ----------------------------------------------------------- story requests
    def q_story(self):
        r = self.r
        pool = ANIMALS + FANTASY + [("", "house", "soup")] * 6
        hero = r.choice(pool)
        plot = r.choice(PLOT_NAMES)
        w = self.world(hero=hero)
        H, F, k = w["H"], w["F"], r.random()
        tell = self.alts("[Tell me|Tell me|Write|Tell|Please tell me|Can you tell me|I want to hear] a [short |little |nice |]story ")
        if k < 0.40:
            q = tell + "about a %s" % H.sp
        elif k < 0.52:
            q = tell + "about a %s and a %s" % (H.sp, F.sp)
        elif k < 0.64:
            q = tell + "about a %s %s" % (H.adj, H.sp)
        elif k < 0.72:
            q = tell + "about %s the %s" % (H.name, H.sp)
        elif k < 0.80:
            plot = "lost"
            q = tell + "about a lost %s" % w["O"].n
        elif k < 0.86:
            q = tell + "about a %s named %s" % (H.sp, H.name)
        else:
            q = tell.rstrip()
        q = an(q) + ("?" if q.startswith("Can") else ".")
        return q, self.story(w, plot, short=True)

    def doc(self):
        """One chat document of one to four turns."""
        r, turns = self.r, []
        k = r.random()
        n = 1 if k < 0.45 else 2 if k < 0.7 else 3 if k < 0.87 else 4
        if r.random() < 0.07:
            first, last = self.q_memory()
            turns += first
            if r.random() < 0.5:
                turns.append(self.pick())
            turns.append(last)
        else:
            if n > 1 and r.random() < 0.2:
                turns.append(self.q_hello())
            while len(turns) < n:
                turns.append(self.pick())
        return self.render(turns)

    def render(self, turns):
        s = ""
        if self.r.random() < 0.12:
            s += "<|im_start|>system\n%s<|im_end|>\n" % self.r.choice(SYSTEM)
        for q, a in turns:
            if self.r.random() < 0.10 and "JSON" not in q and "epeat" not in q and "Say" not in q:   # careless typing
                q = q[0].lower() + q[1:] if self.r.random() < 0.7 else q
                q = q.rstrip("?.!") if self.r.random() < 0.7 else q
            s += "<|im_start|>user\n%s<|im_end|>\n<|im_start|>assistant\n%s<|im_end|>\n" % (q, a)
        return s

    def pick(self):
        while True:
            f = self.r.choices(self.KINDS, self.WEIGHTS)[0]
            q, a = getattr(self, f)()
            if a is not None:
                return q, a

    TABLE = [("q_color", 6), ("q_opp", 7), ("q_add", 16), ("q_sub", 12), ("q_word", 5), ("q_count", 6), ("q_next", 4), ("q_day", 6),
             ("q_sort", 12), ("q_sound", 5), ("q_which_animal", 2), ("q_legs", 3), ("q_kind", 3), ("q_use", 3), ("q_eat", 2), ("q_live", 2),
             ("q_baby", 2), ("q_plural", 3), ("q_rhyme", 2), ("q_bigger", 3), ("q_spell", 5), ("q_repeat", 4), ("q_who", 6), ("q_where", 2),
             ("q_hello", 7), ("q_unknown", 4), ("q_json", 10)]
    KINDS = [t[0] for t in TABLE]
    WEIGHTS = [t[1] for t in TABLE]

    def any_doc(self):
        k = self.r.random()
        if k < 0.25:
            return self.story()
        if k < 0.34:
            return self.render([self.q_story()])
        if k < 0.84:
            return self.doc()
        if k < 0.97:
            return self.render([self.q_json() for _ in range(self.r.choice([1, 1, 1, 2]))])
        out = []
        for _ in range(self.r.choice([1, 2, 3])):
            t, d = self.json_pair()
            out.append("Text: %s\nJSON: %s\n" % (t, json.dumps(d)))
        return "".join(out)


EOT = "<|endoftext|>"


def write(path, seed, nbytes):
    c, size, docs = Chat(random.Random(seed)), 0, 0
    with open(path, "w", encoding="utf-8", newline="\n") as f:
        while size < nbytes:
            d = c.any_doc() + EOT
            f.write(d)
            size += len(d)
            docs += 1
    return docs, size


if __name__ == "__main__":
    ap = argparse.ArgumentParser()
    ap.add_argument("--out", default="corpus.txt")
    ap.add_argument("--val", default="val.txt")
    ap.add_argument("--mb", type=float, default=32)
    ap.add_argument("--seed", type=int, default=1)
    ap.add_argument("--show", type=int, default=0)
    a = ap.parse_args()
    if a.show:
        c = Chat(random.Random(a.seed))
        for _ in range(a.show):
            print(c.any_doc() + "\n-----")
    else:
        print("train: %d docs, %d bytes" % write(a.out, a.seed, int(a.mb * 1e6)))
        print("val: %d docs, %d bytes" % write(a.val, a.seed + 1000003, 300000))
